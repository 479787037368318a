# frozen_string_literal: true

module Support
  # The engine's Lua scripts, for examples that must act between two calls of a script.
  class Scripts
    FOLDER = File.expand_path("../../ext/plock/core/scripts", __dir__)

    # The text of a script, with its parts, as the engine embeds it (scripts/embed.awk).
    def self.source(name)
      path = File.join(FOLDER, "#{name}.lua")
      File
        .read(path)
        .gsub(/^\s*-- include (\S+)$/) do
          source(File.join(File.dirname(name), Regexp.last_match(1)))
        end
    end

    # client: a RedisClient. lock: a store key.
    def initialize(client, lock)
      @client = client
      @lock = lock
    end

    attr_reader :lock

    # The name of a lock's companion.
    def self.companion(lock) = "#{beside(lock)}:fence"

    def self.queue(lock) = "#{beside(lock)}:queue"

    # Names the keys beside a lock as scripts/parts/beside.lua does.
    def self.beside(lock) = "plock:1:#{lock.match?(/\A[^{]+\{[^}]+\}/) ? lock : "{#{lock}}"}"

    def companion = Scripts.companion(lock)

    def queue = Scripts.queue(lock)

    def call(name, *arguments) = @client.call("EVAL", self.class.source(name), 1, lock, *arguments)
  end

  # A client of the engine's scripts. It acts as a process of its own, with its own record. It is
  # subscribed to its channel from #listen to #die.
  class Scripted
    attr_reader :value

    def initialize(scripts, ttl: 60_000, value: SecureRandom.uuid)
      @scripts = scripts
      @ttl = ttl
      @value = value
      @channel = SecureRandom.hex(8)
      @ticket = "0"
    end

    def listen(server)
      @subscription = server.client.config.new_client.pubsub
      @subscription.call("SUBSCRIBE", channel)
      @subscription.next_event(5)
      self
    end

    # Ends the subscription. When this returns, the server knows that it ended, and all earlier
    # messages have been read.
    def die
      @subscription.call("UNSUBSCRIBE", channel)
      event = @subscription.next_event(5) until event&.first == "unsubscribe"
      close
    end

    def close = @subscription.close

    # Returns the next message without its value and its lock: "+", "=", "~1000" … Returns nil if
    # no message arrives within this many seconds.
    def hears(within: 5) =
      @subscription.next_event(within)&.last&.then { |message| message.split.first }

    def signature = "host 1 1 #{@channel} -"

    def record = "#{signature} #{value}"

    private

    FENCE_TTL = 3_600_000
    private_constant :FENCE_TTL

    def channel = "plock:1:wake:#{@channel}"

    def noted_for = @ttl + FENCE_TTL

    def answered(answer)
      return true if answer.is_a?(String) || answer.first.is_a?(String)

      @ticket = answer[3] || @ticket
      answer[1]
    end
  end

  # A client that asks for an exclusive lock.
  class Contender < Scripted
    # @return [true, Integer] true if it got the lock; otherwise the milliseconds until it must ask
    #   again (0: at once)
    def ask = answered(@scripts.call("acquire", value, @ttl, signature, noted_for))

    def queue = answered(@scripts.call("acquire", value, @ttl, signature, noted_for, @ticket, "0"))

    def release = @scripts.call("release", value)

    def leave = @scripts.call("leave", value, "0", signature)

    def undo(signature = self.signature) = @scripts.call("undo", value, signature)
  end

  # A client that asks for a share of a lock.
  class Sharer < Scripted
    def initialize(scripts, share, **options)
      super(scripts, **options)
      @share = share
    end

    # @return [true, Integer] true if it got a share; otherwise the milliseconds until it must ask
    #   again (0: at once)
    def ask = answered(@scripts.call("shared_acquire", value, @ttl, signature, FENCE_TTL, @share))

    def queue =
      answered(@scripts.call("shared_acquire", value, @ttl, signature, FENCE_TTL, @share, @ticket))

    # keep: milliseconds, or "held", which a client passes if its lease is still valid.
    def release(keep: nil) = @scripts.call("shared_release", value, FENCE_TTL, *keep)

    def release_held = release(keep: "held")

    def leave = @scripts.call("shared_leave", value, "0", FENCE_TTL, @share, signature)

    def downgrade = @scripts.call("shared_downgrade", value, FENCE_TTL)
  end
end
