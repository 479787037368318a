# frozen_string_literal: true

require_relative "adapters"
require_relative "../support/redis_server"

module Torture
  # The server that the workers share: it keeps what it has acknowledged, whatever happens to it. Each slot has a user of
  # its own there, so that it is known whose connection it is that is cut.
  class Arena
    PASSWORD = "torture"
    DURABLE = { "appendonly" => "yes", "appendfsync" => "always" }.freeze

    def initialize
      users = WORKERS.times.to_h { |slot| ["user##{slot}", [user(slot), "on", ">#{PASSWORD}", "~*", "&*", "+@all"]] }
      @server = Support::RedisServer.start(:plain, config: DURABLE.merge(users))
    end

    # Every other worker comes by TCP.
    def address(slot)
      login = { user: user(slot), password: PASSWORD }
      place = slot.even? ? { path: @server.unix_path } : { host: "127.0.0.1", port: @server.port }
      Address.new(slot.even? ? @server.unix_url(**login) : @server.url(**login),
                  { **place, username: user(slot), password: PASSWORD })
    end

    # Cuts one connection of that kind ("normal", "pubsub"); the slot whose it was, nil: there is none.
    def cut(type, roll)
      clients = @server.call("CLIENT", "LIST", "TYPE", type).lines.filter_map do |line|
        line.match(/\Aid=(?<id>\d+) .* user=w(?<slot>\d+)\b/)
      end
      victim = clients[(roll * clients.size).floor] or return
      @server.call("CLIENT", "KILL", "ID", victim[:id])
      Integer(victim[:slot])
    end

    def flush_scripts = @server.call("SCRIPT", "FLUSH")

    # Killed, and back when it has read its log again.
    def restart
      @server.restart
      sleep 0.002 until ready?
    end

    # How many connections are left, but those of default, the user behind the scenes; and how many channels.
    def connections = @server.call("CLIENT", "LIST").lines.grep_v(/ user=default\b/).size
    def channels = @server.call("PUBSUB", "CHANNELS").size

    # Each key that is left, with its time to live in seconds; negative: for ever.
    def keys = @server.call("KEYS", "*").to_h { |key| [key, @server.call("PTTL", key) / 1000.0] }

    # A connection that looks on, from another thread.
    def onlooker = RedisClient.config(path: @server.unix_path, timeout: 1, reconnect_attempts: 0).new_client

    def stop = @server.stop

    private

    def ready?
      @server.call("PING")
    rescue RedisClient::CommandError # loading
      false
    end

    def user(slot) = "w#{slot}"
  end
end
