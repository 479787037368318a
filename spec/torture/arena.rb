# frozen_string_literal: true

require_relative "adapters"
require_relative "../support/certificates"
require_relative "../support/proxy"
require_relative "../support/redis_server"

module Torture
  # The server that the workers share. It keeps all acknowledged data, whatever happens to it. Each
  # slot has its own user there, so that the driver knows whose connection it cuts.
  class Arena
    PASSWORD = "torture"
    DURABLE = { "appendonly" => "yes", "appendfsync" => "always" }.freeze

    def initialize(course)
      @course = course
      users = course.workers.times.to_h do |slot|
        ["user##{slot}", [user(slot), "on", ">#{PASSWORD}", "~*", "&*", "+@all"]]
      end
      @tls_port = free_port
      @server = Support::RedisServer.start(:plain, config: { **DURABLE, **tls, **users })
      slots = course.workers.times.select { |slot| course.relayed?(slot) }
      @relays = slots.to_h { |slot| [slot, Support::Proxy.new(["127.0.0.1", port_behind(slot)])] }
    end

    # The address of the server for the worker of this slot: by a Unix socket, by TCP, by TLS, or by
    # one of the latter through a relay.
    def address(slot)
      return unix_address(slot) if @course.road(slot) == :unix

      port = @relays[slot]&.port || port_behind(slot)
      tls = tls?(slot)
      url = "#{tls ? "rediss" : "redis"}://#{user(slot)}:#{PASSWORD}@127.0.0.1:#{port}"
      ca_file = Support::Certificates.ca.cert_file
      settings = { host: "127.0.0.1", port: port, **login(slot) }
      settings = { **settings, ssl: true, ssl_params: { ca_file: ca_file } } if tls
      options = { pool_size: @course.pool(slot), **(tls ? { ca_file: ca_file } : {}) }
      Address.new(url, settings, options)
    end

    # The address without a relay, for the probes at the end.
    def unix_address(slot)
      url = @server.unix_url(user: user(slot), password: PASSWORD)
      settings = { path: @server.unix_path, **login(slot) }
      Address.new(url, settings, { pool_size: @course.pool(slot) })
    end

    # From now on the worker receives nothing; with deaf, its own bytes still arrive.
    def darken(slot, deaf:)
      @relays.fetch(slot).swallow_all(:request) unless deaf
      @relays.fetch(slot).swallow_all(:reply)
    end

    # Connections that lost bytes cannot go on, so they end as the network would end them.
    def lighten(slot)
      @relays.fetch(slot).disconnect
      @relays.fetch(slot).clear
    end

    def relayed = @relays.keys

    # Cuts one connection of that kind ("normal", "pubsub"). Returns the slot of its user; nil:
    # there is no such connection.
    def cut(type, roll)
      clients = @server.call("CLIENT", "LIST", "TYPE", type).lines.filter_map do |line|
        line.match(/\Aid=(?<id>\d+) .* user=w(?<slot>\d+)\b/)
      end
      victim = clients[(roll * clients.size).floor] or return
      @server.call("CLIENT", "KILL", "ID", victim[:id])
      Integer(victim[:slot])
    end

    def flush_scripts = @server.call("SCRIPT", "FLUSH")

    def flush_all = @server.call("FLUSHALL")

    def evict(keys) = @server.call("DEL", *keys)

    # Kills the server, and returns when it has read its log again.
    def restart
      @server.restart
      sleep 0.002 until ready?
    end

    # The number of open connections, except those of default, the user of the supervisor; and the
    # number of channels.
    def connections = @server.call("CLIENT", "LIST").lines.grep_v(/ user=default\b/).size
    def channels = @server.call("PUBSUB", "CHANNELS").size

    # The remaining keys, each with its time to live in seconds; negative: forever.
    def keys = @server.call("KEYS", "*").to_h { |key| [key, @server.call("PTTL", key) / 1000.0] }

    # A connection for another thread that only looks.
    def onlooker =
      RedisClient.config(path: @server.unix_path, timeout: 1, reconnect_attempts: 0).new_client

    def stop
      @relays&.each_value(&:close)
      @server&.stop
    end

    private

    def login(slot) = { username: user(slot), password: PASSWORD }

    def tls?(slot) = @course.road(slot).start_with?("tls")

    def port_behind(slot) = tls?(slot) ? @tls_port : @server.port

    # No other process of the suite claims it as long as there is this arena.
    def free_port
      Support::Port.claim do |port, hold|
        @hold = hold&.dup
        port
      end
    end

    def tls
      pair = Support::Certificates.server
      { "tls-port" => @tls_port.to_s, "tls-cert-file" => pair.cert_file,
        "tls-key-file" => pair.key_file, "tls-auth-clients" => "no",
        "tls-ca-cert-file" => Support::Certificates.ca.cert_file }
    end

    def ready?
      @server.call("PING")
    rescue RedisClient::CommandError # loading
      false
    end

    def user(slot) = "w#{slot}"
  end
end
