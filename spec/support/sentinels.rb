# frozen_string_literal: true

require_relative "redis_server"
require_relative "replication"

module Support
  # A primary with two replicas, and three sentinels that watch it, on loopback.
  #
  #   group = Support::Sentinels.new
  #   Plock::Store.open(group.url)
  #   group.fail_over            # asks a sentinel for a failover, and waits until it is done
  #   group.primary.kill         # the sentinels notice it after DOWN_AFTER_MS
  #
  #   group = Support::Sentinels.new(failover: false)   # they notice it only after 10 s
  class Sentinels
    NAME = "main"
    DOWN_AFTER_MS = 300
    # For groups without failovers: even on a busy machine, a server answers its sentinels within
    # this time.
    STEADY_DOWN_AFTER_MS = 10_000
    HELLO_MS = 2_000 # the default of the sentinels
    QUORUM = 2
    DEADLINE = 30.0

    attr_reader :servers, :sentinels

    # @param server [Hash] the settings of each server
    # @param sentinel [Hash] the settings of each sentinel
    # @param failover [Boolean] should the sentinels notice quickly that a server is down?
    # @param tls [Boolean] do all servers and sentinels speak TLS?
    def initialize(server: {}, sentinel: {}, failover: true, tls: false)
      @down_after_ms = failover ? DOWN_AFTER_MS : STEADY_DOWN_AFTER_MS
      @tls = tls
      @servers = Replication.new(settings: server, kind: tls ? :tls : :plain).servers
      @sentinels = Array.new(3) { watch(servers.first, sentinel) }
      hello_every(100)
      await { sentinels.all? { |one| whole?(one) } }
      hello_every(HELLO_MS)
    end

    def url(user: nil)
      places = sentinels.map { |one| "127.0.0.1:#{one.port}" }.join(",")
      "redis#{"s" if @tls}+sentinel://#{"#{user}@" if user}#{places}/#{NAME}"
    end

    # @return [RedisServer] the primary, according to the first running sentinel
    def primary
      port = sentinels.find(&:pid).call("SENTINEL", "get-master-addr-by-name", NAME)[1].to_i
      servers.find { |server| server.port == port }
    end

    def fail_over
      before = primary
      await { begin_failover }
      await_another(before)
    end

    # Waits until the sentinels have replaced that primary.
    #
    # @return [RedisServer] the new primary
    def await_another(before)
      await { primary != before && primary.call("ROLE").first == "master" }
      primary
    end

    # Makes the user `plock` with the password `pw`.
    def admit(server) =
      server.call("ACL", "SETUSER", "plock", "on", ">pw", "~*", "&*", "+@all")

    # From now on, the sentinels and the other servers cannot log in on this server. Only the user
    # `plock` can.
    def cut_off(server)
      admit(server)
      server.call("ACL", "SETUSER", "default", "resetpass", ">unknown to the others")
      server.call("CLIENT", "KILL", "USER", "default", "SKIPME", "yes")
    end

    def stop = [*sentinels, *servers].each(&:stop)

    def await(deadline = DEADLINE)
      ends = now + deadline
      until yield
        raise "the sentinels were not ready" if now > ends

        sleep 0.005
      end
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def watch(first, settings)
      RedisServer.start(
        :sentinel, monitor: [NAME, "127.0.0.1", first.port.to_s, QUORUM.to_s],
        cert: (Certificates.server if @tls),
        config: {
          "sentinel down-after-milliseconds #{NAME}" => @down_after_ms.to_s,
          "sentinel failover-timeout #{NAME}" => "2000", **settings
        }
      )
    end

    # Sets how often the sentinels send the hello messages by which they find each other. Redis 6
    # does not have this setting.
    def hello_every(milliseconds)
      sentinels.each do |one|
        one.call("SENTINEL", "DEBUG", "publish-period", milliseconds.to_s)
      end
    rescue RedisClient::CommandError
      nil
    end

    # Does this sentinel know the two replicas and the other two sentinels, and is the primary up?
    def whole?(sentinel)
      facts = sentinel.call("SENTINEL", "master", NAME)
      facts = Hash[*facts] if facts.is_a?(Array)
      facts["num-slaves"].to_i == 2 && facts["num-other-sentinels"].to_i == 2 &&
        facts["flags"] == "master"
    end

    def begin_failover
      sentinels.find(&:pid).call("SENTINEL", "FAILOVER", NAME)
    rescue RedisClient::CommandError
      false # a failover is under way, or no replica is ready yet
    end
  end
end
