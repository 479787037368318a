# frozen_string_literal: true

module Support
  # The engine's scripts, to be called one by one, where it matters what happens between two of them.
  class Scripts
    FOLDER = File.expand_path("../../ext/plock/core/scripts", __dir__)

    # What the engine embeds (scripts/embed.awk).
    def self.source(name)
      path = File.join(FOLDER, "#{name}.lua")
      File.read(path).gsub(/^\s*-- include (\S+)$/) { source(File.join(File.dirname(name), Regexp.last_match(1))) }
    end

    # client: a RedisClient. lock: a store key.
    def initialize(client, lock)
      @client = client
      @keys = [lock, "plock:1:{#{lock}}:fence", "plock:1:{#{lock}}:queue"]
    end

    attr_reader :keys

    def call(name, *arguments) = @client.call("EVAL", self.class.source(name), @keys.size, *@keys, *arguments)
  end

  # Somebody who wants a share of a lock, in a process of his own, whose channel is listened to between #listen and #die.
  class Sharer
    attr_reader :value

    def initialize(scripts, share, ttl: 60_000)
      @scripts = scripts
      @share = share
      @ttl = ttl
      @value = SecureRandom.uuid
      @channel = SecureRandom.hex(8)
      @ticket = "0"
    end

    def listen(server)
      @subscription = server.client.config.new_client.pubsub
      @subscription.call("SUBSCRIBE", channel)
      @subscription.next_event(5)
      self
    end

    # The server knows of it when this returns.
    def die
      @subscription.call("UNSUBSCRIBE", channel)
      @subscription.next_event(5)
      close
    end

    def close = @subscription.close

    # What he is told next, without his value and the lock: "+", "~1000" …
    def hears = @subscription.next_event(5)&.last&.then { |message| message.split.first }

    # Whether he was let in; if not, after how many milliseconds he is to look again.
    def ask = answered(@scripts.call("shared_acquire", value, @ttl, record, @share))

    def queue = answered(@scripts.call("shared_acquire", value, @ttl, record, @share, @ticket))

    def release(keep: nil) = @scripts.call("shared_release", value, *keep)

    def leave = @scripts.call("shared_leave", value, "0", @share, record)

    private

    def channel = "plock:1:wake:#{@channel}"

    def record = "host 1 1 #{@channel} - #{value}"

    def answered(answer)
      return true if answer.is_a?(String) || answer.first.is_a?(String)

      @ticket = answer[3] || @ticket
      answer[1]
    end
  end
end
