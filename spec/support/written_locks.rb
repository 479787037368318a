# frozen_string_literal: true

require "securerandom"

require_relative "scripts"

module Support
  # Locks of processes that do not exist, on hosts that do not exist, written into Redis as the
  # engine writes them (ext/plock/core/scripts).
  #
  #   locks = WrittenLocks.new(server, store)
  #   locks.hold("import", host: "web-1", pid: 812, label: "nightly", since: 90)
  #   locks.wait("import", host: "web-2", pid: 77, since: 12)
  class WrittenLocks
    LEFT_MS = 3_600_000

    def initialize(server, store)
      @server = server
      @store = store
    end

    # Writes the holder of a plain lock, or of a lock of the kind `once`. Returns the lock's store
    # key.
    def hold(key, kind: Plock::Locking::Kind::LOCK, left_ms: LEFT_MS, **owner)
      name = @store.config.store_key(key, kind)
      value, note = note_of(**owner)
      @server.call("SET", name, value, "PX", left_ms)
      @server.call("SET", Scripts.companion(name), note, "PX", left_ms)
      name
    end

    # Writes one holder of a semaphore (mode "s") or of a read-write lock (mode "r" or "w").
    def share(key, mode, left_ms: LEFT_MS, **owner)
      name = @store.config.store_key(key, kind_of(mode))
      value, note = note_of(**owner)
      @server.call("ZADD", name, ((Time.now.to_f * 1000) + left_ms).to_i, value)
      @server.call("HSET", Scripts.companion(name), value, "#{mode} #{note}")
      name
    end

    # Writes a waiter for a lock of any kind. share: nil for a lock with one holder, otherwise the
    # waiter's share as in parts/share.lua, for example "s3" for a semaphore with 3 permits.
    def wait(key, share: nil, kind: Plock::Locking::Kind::LOCK, since: 0, **owner)
      name = @store.config.store_key(key, share ? kind_of(share) : kind)
      ticket = ((Time.now.to_f - since) * 1_000_000).to_i
      record = record_of(SecureRandom.uuid, **owner)
      @server.call("ZADD", Scripts.queue(name), ticket, [share, record].compact.join(" "))
      name
    end

    private

    def kind_of(share)
      share.start_with?("s") ? Plock::Locking::Kind::SEMAPHORE : Plock::Locking::Kind::READ_WRITE
    end

    def note_of(since: 0, **owner)
      value = SecureRandom.uuid
      at = Time.now.to_f - since
      fence = (at * 1_000_000).to_i
      [value, "#{fence} #{at.to_i}:#{((at % 1) * 1_000_000).to_i} #{record_of(value, **owner)}"]
    end

    def record_of(value, host: "web-1", pid: 1, thread: pid, label: nil)
      encode = ->(text) do
        text.gsub(/[\x00-\x20\x7F%]/) { |character| format("%%%02X", character.ord) }
      end
      [encode[host], pid, thread, "-", label ? encode[label] : "-", value].join(" ")
    end
  end
end
