# frozen_string_literal: true

require_relative "adapters"
require_relative "../support/certificates"
require_relative "../support/proxy"
require_relative "../support/redis_server"

module Torture
  # The server that the workers share: it keeps what it has acknowledged, whatever happens to it.
  # Each slot has a user of its own there, so that it is known whose connection it is that is cut.
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

    # How the worker of this slot reaches the server: by a Unix socket, by TCP, by TLS, or by the
    # last two through a relay of its own.
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

    # Without a relay between: the way for the probes at the end.
    def unix_address(slot)
      url = @server.unix_url(user: user(slot), password: PASSWORD)
      settings = { path: @server.unix_path, **login(slot) }
      Address.new(url, settings, { pool_size: @course.pool(slot) })
    end

    # From now on nothing comes through to this worker; with deaf, what it sends still arrives.
    def darken(slot, deaf:)
      @relays.fetch(slot).swallow_all(:request) unless deaf
      @relays.fetch(slot).swallow_all(:reply)
    end

    # Connections whose bytes were lost cannot go on, and end as the network would have ended them.
    def lighten(slot)
      @relays.fetch(slot).disconnect
      @relays.fetch(slot).clear
    end

    def relayed = @relays.keys

    # Cuts one connection of that kind ("normal", "pubsub"); the slot whose it was, nil: there is
    # none.
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

    # Killed, and back when it has read its log again.
    def restart
      @server.restart
      sleep 0.002 until ready?
    end

    # How many connections are left, but those of default, the user behind the scenes; and how many
    # channels.
    def connections = @server.call("CLIENT", "LIST").lines.grep_v(/ user=default\b/).size
    def channels = @server.call("PUBSUB", "CHANNELS").size

    # Each key that is left, with its time to live in seconds; negative: for ever.
    def keys = @server.call("KEYS", "*").to_h { |key| [key, @server.call("PTTL", key) / 1000.0] }

    # A connection that looks on, from another thread.
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

    def free_port
      Support::Port.claim { |port| Support::Port.bound(port).close || port }
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
