# frozen_string_literal: true

# The drop-in for remote_lock. It also writes the keys that processes with the original gem read.
module Bench
  def self.remote_lock(server)
    require "plock/compat/remote_lock"

    RemoteLock.new(RemoteLock::Adapters::Redis.new(server.url(:tcp)))
  end

  contestant "remote-lock",
             label: "plock, RemoteLock",
             role: :engine,
             family: :remote_lock do |server|
    lock = remote_lock(server)
    -> { lock.synchronize("bench:remote_lock", expiry: 10) { :held } }
  end

  contender "remote-lock" do |server|
    lock = remote_lock(server)
    -> { ->(key, section) { lock.synchronize(key, expiry: TTL, &section) } }
  end
end
