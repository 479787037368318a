# frozen_string_literal: true

require_relative "arena"

module Torture
  # Looks at the server all the time. It notes when it first saw each call in a queue. From that
  # time on, the call is certainly queued, so calls that ask later must be served later. It also
  # notes when it last saw each call in a queue, or as a holder.
  class Onlooker
    SLOW = SECOND / 20
    LABEL = / (t[0-9c]+x\d+x\d+) /

    def initialize(arena, adapter, chronicle, pause)
      @arena = arena
      @adapter = adapter
      @keys = KEYS.times.select { |key| adapter.queue(key) }
      @chronicle = chronicle
      @pause = pause
      @thread = Thread.new { look until @stopped } if @keys.any?
    end

    def stop
      @stopped = true
      @thread&.join
      @client&.close
    end

    private

    def look
      @client ||= @arena.onlooker
      asked_at = Clock.now
      answers = @client.pipelined { |pipe| @keys.each { |key| ask(pipe, key) } }
      now = Clock.now
      @chronicle.slow << [asked_at, now] if now - asked_at > SLOW
      answers.each_slice(ANSWERS).zip(@keys) { |answer, key| see(key, *answer, asked_at, now) }
      sleep @pause
    rescue RedisClient::Error
      sleep @pause # the server is being restarted
    end

    ANSWERS = 3

    def ask(pipe, key)
      pipe.call("ZRANGE", @adapter.queue(key), 0, -1)
      if shared?(key)
        pipe.call("ZRANGE", @adapter.place(key), 0, -1)
        pipe.call("HGETALL", @adapter.companion(key))
      else
        pipe.call("GET", @adapter.place(key))
        pipe.call("GET", @adapter.companion(key))
      end
    end

    def see(key, queue, holders, notes, asked_at, now)
      queue.each { |member| see_waiter(member[LABEL, 1], asked_at, now) }
      labels(key, holders, notes).each { |label| @chronicle.held[label] = asked_at }
    end

    def see_waiter(label, asked_at, now)
      return unless label

      @chronicle.queued[label] ||= now
      @chronicle.waited[label] = asked_at
    end

    # The labels of the holders of this key, as far as the companion has their records.
    def labels(key, holders, notes)
      records = notes.values_at(*holders) if shared?(key)
      records ||= holders && notes&.end_with?(holders) ? [notes] : []
      records.compact.filter_map { |record| record[LABEL, 1] }
    end

    def shared?(key) = Torture.way_to(key).mode
  end
end
