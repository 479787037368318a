# frozen_string_literal: true

require_relative "arena"

module Torture
  # Looks at the queues all the time, and notes when it first saw whom: from then on he was queued, and who asks only now
  # asks after him.
  class Onlooker
    PAUSE = 0.004
    LABEL = / (t[0-9c]+x\d+x\d+) /

    def initialize(arena, queues, chronicle)
      @arena = arena
      @queues = queues.compact
      @seen = chronicle.queued
      @thread = Thread.new { look until @stopped } if @queues.any?
    end

    def stop
      @stopped = true
      @thread&.join
      @client&.close
    end

    private

    def look
      @client ||= @arena.onlooker
      answers = @client.pipelined { |pipe| @queues.each { |queue| pipe.call("ZRANGE", queue, 0, -1) } }
      now = Clock.now
      answers.flatten.each { |member| (label = member[LABEL, 1]) && (@seen[label] ||= now) }
      sleep PAUSE
    rescue RedisClient::Error
      sleep PAUSE # it is being restarted
    end
  end
end
