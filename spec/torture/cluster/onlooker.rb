# frozen_string_literal: true

require_relative "../sentinel/onlooker"

module Torture
  module Cluster
    # Looks at each key on the server of its slot. While the slot moves, the onlooker cannot see
    # the key.
    class Onlooker < Sentinel::Onlooker
      private

      def look
        @keys.each { |key| look_at(key) }
        sleep @pause
      end

      def look_at(key)
        @server = owner(key) or return sleep(@pause)
        asked_at = Clock.now
        answer = (clients[@server] ||= @arena.client(@server)).pipelined { |pipe| ask(pipe, key) }
        now = Clock.now
        @chronicle.slow << [asked_at, now] if now - asked_at > SLOW
        see(key, *answer, asked_at, now)
      rescue RedisClient::Error
        @owners = nil # the server is down, or the slot has moved
      end

      def clients = @clients ||= {}

      def owner(key)
        @slots ||= Hash.new do |slots, one|
          slots[one] = @arena.cluster.slot(@adapter.place(one))
        end
        @owners ||= Arena.instance_method(:owners).bind_call(looking_arena)
        @owners&.find { |range, _| range.include?(@slots[key]) }&.last
      end

      # A copy of the arena whose connections only this thread uses.
      def looking_arena
        @looking_arena ||= @arena.dup.tap { |arena| arena.instance_variable_set(:@clients, {}) }
      end
    end
  end
end
