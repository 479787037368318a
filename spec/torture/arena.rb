# frozen_string_literal: true

require_relative "adapters"
require_relative "../support/certificates"
require_relative "../support/proxy"
require_relative "../support/redis_server"

module Torture
  # The server that the workers share. It never loses acknowledged data, except when the driver
  # deletes data. Each slot (basics.rb) has its own user on the server, so that the driver knows
  # which worker's connection it cuts.
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

    # The address of the server for the worker of this slot: a Unix socket, TCP or TLS, or TCP or
    # TLS through a relay.
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

    # The address without a relay, which the probes at the end use.
    def unix_address(slot)
      url = @server.unix_url(user: user(slot), password: PASSWORD)
      settings = { path: @server.unix_path, **login(slot) }
      Address.new(url, settings, { pool_size: @course.pool(slot) })
    end

    # From now on, the worker receives nothing. If `deaf`, the server still receives what the
    # worker sends.
    def darken(slot, deaf:)
      @relays.fetch(slot).swallow_all(:request) unless deaf
      @relays.fetch(slot).swallow_all(:reply)
    end

    # Lets the worker reach the server again. Closes its connections, because bytes were lost on
    # them.
    def lighten(slot)
      @relays.fetch(slot).disconnect
      @relays.fetch(slot).clear
    end

    def relayed = @relays.keys

    # Cuts one connection of this type ("normal" or "pubsub"). Returns the slot of its user, or
    # nil if there is no such connection.
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

    # Kills the server and starts it again. Returns when the server has read its log.
    def restart
      @server.restart
      sleep 0.002 until ready?
    end

    # The number of connections that workers have open, and the number of channels. The user
    # `default` is the suite's own.
    def connections = @server.call("CLIENT", "LIST").lines.grep_v(/ user=default\b/).size
    def channels = @server.call("PUBSUB", "CHANNELS").size

    # The remaining keys, each with its time to live in seconds. A negative time means that the
    # key never expires.
    def keys = @server.call("KEYS", "*").to_h { |key| [key, @server.call("PTTL", key) / 1000.0] }

    # A connection for the onlooker's thread.
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

    # No other process of the suite claims this port while the arena exists.
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
    rescue RedisClient::CommandError # the server is still loading its data
      false
    end

    def user(slot) = "w#{slot}"
  end
end
