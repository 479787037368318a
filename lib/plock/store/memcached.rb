# frozen_string_literal: true

require "uri"
require "plock"
require_relative "support/by_owner"
require_relative "support/looking"
require_relative "memcached/client"
require_relative "support/reach"

module Plock
  class Store
    # Locks in memcached, through Dalli, for applications that have no other server. The store needs
    # `require "plock/store/memcached"`.
    #
    # memcached may lose locks at any time: under memory pressure it evicts them, and a restart
    # forgets all of them. As with other stores, a holder notices the loss when its lease is
    # extended, renewed or released. Fences start from the time on a holder's clock, and count up.
    # After a restart, they start from a holder's clock again, so they keep growing if the clocks
    # are right.
    #
    # The server has no wait queue. Each process serves its own waiters in order, and polls for the
    # first of them, with pauses that grow from 4 ms to 250 ms. There is no order among processes,
    # and {Status#waiters} lists only the waiters of this process. memcached counts time in seconds,
    # so a key that is not released stays taken for up to two seconds after its lease has ended.
    # Calls that list or share keys raise {UnsupportedError}.
    #
    # A Ruby thread renews the leases. If other code blocks all Ruby threads for longer than a ttl,
    # the leases end.
    #
    # @example
    #   require "plock/store/memcached"
    #   store = Plock::Store::Memcached.new("localhost:11211", ttl: 30)
    #   store.acquire("invoice:7") { |lease| send_invoice(7, fence: lease.fence) }
    #
    # @!method close
    #   Closes the connections that are not in use. The next use of the store opens new ones.
    #   @return [nil]
    #
    # @!method lock_acquire(key, owner, ttl)
    #   @see Store#lock_acquire
    #
    # @!method lock_release(key, owner)
    #   @see Store#lock_release
    class Memcached
      include Looking
      include ByOwner

      # The abilities that this store lacks; see {Locking::ABILITIES}.
      UNABLE = %i[
        order lasting_fences prompt_expiry semaphores read_write_locks downgrade list busy_renewal
        background_release replicas
      ].freeze

      # @api private
      ONE_HOLDER = "memcached cannot share a key"
      # Matches a server in Dalli's short form, which is not a URL: a host or a socket, and perhaps
      # a port and a weight.
      SERVER = /\A(?:\[[\h:]+\]|[^:]+)(?::\d+){0,2}\z/
      DAY_S = 86_400
      private_constant :SERVER, :DAY_S

      # @param source [String, Array<String>, Dalli::Client, #with] servers as Dalli takes them, or
      #   a client or pool of clients, whose servers and options are copied. If a server is down,
      #   its keys do not move to another server.
      # @param pool_size [Integer] the largest number of connections, 1 to 1024
      # @param attempt_timeout [Numeric] seconds, 0.001 to 3600, that one request may take
      # @param unavailable_timeout [Numeric] seconds, 0.001 to 3600, after which an acquire that
      #   cannot reach memcached gives up, even if its `wait:` is longer
      # @param options [Hash{Symbol => Object}] `:secret`, `:namespace`, `:ttl`, `:wait` and
      #   `:logger` as for {Store.open}
      # @param config [Locking::StoreConfig, nil] from {Store.open}
      # @raise [ArgumentError] an unknown option, or no source
      # @raise [ConfigurationError] an invalid value
      def initialize(
        source, pool_size: 5, attempt_timeout: 0.5, unavailable_timeout: 1.0, config: nil,
        **options
      )
        own_config = config_of(options)
        servers, settings = Client.address_of(source)
        @servers = check_servers(servers)
        set_up(config || own_config, attempt_timeout)
        @reach = reach_within(unavailable_timeout)
        @pool =
          Pool.new(check_pool_size(pool_size)) do
            Client.new(servers, settings, @attempt_timeout)
          end
      end

      # @return [String] the servers, without user and password
      def url = "memcached://#{@servers.map { |server| server[/[^@]*\z/] }.join(",")}"

      # @!visibility private
      # The following methods are for {AcquireRequest}, {LeaseState} and {Renewal}.

      # Takes the key with one request, and the fence with another. Between these requests, the
      # lease may end, and another holder may take the key with a smaller fence. So this reads the
      # key once more at the end. If another holder has it, the request is refused.
      #
      # @return [Integer, nil] the fence; nil: the key is held
      def add(lease, ttl, deadline)
        work(deadline) do |client|
          next unless client.add(lease.key, value(lease, ttl), seconds(ttl))

          fence = next_fence(client, lease.key)
          fence if held_by?(lease.token, client.read(lease.key))
        end
      end

      def prolong(lease, span)
        change(lease, nil, Pool::RENEWAL) do |client, cas|
          client.replace(lease.key, value(lease, span), seconds(span), cas)
        end
      end

      def still?(lease)
        work(nil, Pool::RENEWAL) { |client| held_by?(lease.token, client.read(lease.key)) }
      end

      def give_back(lease, keep, deadline = nil)
        ours = change(lease, deadline, Pool::RELEASE) do |client, cas|
          next client.delete(lease.key, cas) unless keep.positive?

          client.replace(lease.key, value(lease, keep, token: "-"), seconds(keep), cas)
        end
        @lines.call_first(lease.key) if keep.zero?
        ours
      end

      private

      # Without this check, Dalli would reject an invalid server only at the first request, with
      # an error that shows the password.
      def check_servers(servers)
        return servers if servers.all? { |server| address?(server) }

        misconfigured(
          "a server must be host:port, or memcached://user:password@host:port with only those " \
            "characters that a URL may have"
        )
      end

      def address?(server)
        return SERVER.match?(server) unless server.start_with?("memcached://")

        URI.parse(server) && true
      rescue URI::Error
        false
      end

      def undo(lease, within)
        give_back(lease, 0.0, Clock.now + within)
        true
      rescue Error
        false
      end

      # The note does not expire, but memcached may evict it.
      def keep_note(name, note, replace)
        work do |client|
          next client.read(name) if note.empty?

          client.set(name, note, 0) if replace
          client.add(name, note, 0) ? note : client.read(name)
        end
      end

      def take_over(lease, token, ttl, granted)
        change(lease, token: token) do |client, cas, found|
          noted = holder(found, nil)
          lease.label = noted.label
          left = ttl || noted.remaining
          # if the time left is 0 or less, or longer than the ttl, a clock was set; in that case the
          # lease gets its whole ttl
          left = granted unless left.positive? && left <= (ttl || granted)
          next unless client.replace(lease.key, value(lease, left), seconds(left), cas)

          [next_fence(client, lease.key), left]
        end || nil
      end

      def next_fence(client, key)
        client.count(fence_key(key), (Clock.wall * 1_000_000).round, DAY_S)
      end

      def keys_after(_prefix, _cursor)
        raise UnsupportedError, "memcached cannot list what it has"
      end

      # Without a deadline, all requests of the block together take at most `attempt_timeout`.
      def work(deadline = nil, reserve = 0)
        deadline ||= Clock.now + @attempt_timeout
        @reach.noting { @pool.with(deadline, reserve) { |client| yield client.by(deadline) } }
      end

      # While `token` holds the key, runs the block with the client, the value's version and the
      # value, until the block returns a true value. The version may be out of date, because the
      # server may still carry out an extension whose caller was interrupted.
      def change(lease, deadline = nil, reserve = 0, token: lease.token)
        work(deadline, reserve) do |client|
          loop do
            value, cas = client.read_with_cas(lease.key)
            break false unless held_by?(token, value)

            done = yield(client, cas, value)
            break done if done
          end
        end
      end

      # memcached may end a key at any time during the key's last second, so the key gets one
      # second more.
      def seconds(span) = span.ceil + 1

      # The value is "expiry since record": two times on the holder's clock, and a {Record} that
      # ends with the token.
      def value(lease, span, token: lease.token)
        now = Clock.wall
        "#{(now + span).round(6)} #{now.round(6)} #{Record.write(nil, lease.label, token)}"
      end

      def owner(value)
        value && Record.parse(value.split(" ", 3)[2].to_s)&.last
      rescue ArgumentError, TypeError
        nil # another program wrote the value
      end

      # Compares bytes, because a {Record} has only the bytes of the owner's name, which may be in
      # any encoding.
      def held_by?(token, value) = owner(value) == token.b

      # The token of the owner, or the whole value if another program wrote the value.
      def whose(value) = owner(value) || value

      def fence_key(key) = "#{key}:fence"

      def holders(key, deadline = nil)
        value, fence = work(deadline) { |client| [client.read(key), client.read(fence_key(key))] }
        value ? [holder(value, fence)] : []
      end

      def holder(value, fence)
        return Status.holder unless owner(value) # another program wrote the value

        expires_at, since, record = value.split(" ", 3)
        left = [Float(expires_at) - Clock.wall, 0.0].max
        Status.holder(remaining: left, fence: fence && Integer(fence, 10), since: Float(since),
                      **Record.who(record))
      rescue ArgumentError, TypeError
        Status.holder
      end

      def break_hold(key, _shared, only)
        broken = work { |client| remove(client, key, only) }
        @watched[owner(broken)]&.lose if broken
        !broken.nil?
      ensure
        @lines.call_first(key)
      end

      # Takes the key away from its current holder, even if that holder renews the lease at the
      # same time. A later holder keeps the key.
      #
      # @param only [Array<Status::Holder>, nil] the holders that may lose the key; nil: any holder
      # @return [String, nil] the value that was removed
      def remove(client, key, only)
        value, cas = client.read_with_cas(key)
        return if value && only && !only.map(&:who).include?(
          holder(value, client.read(fence_key(key))).who
        )

        holder = whose(value)
        until value.nil? || client.delete(key, cas)
          value, cas = client.read_with_cas(key)
          value = nil unless whose(value) == holder
        end
        value
      end

      def check_name(key)
        if key.is_a?(String) && key.bytesize.between?(1, 250) && !key.b.match?(/[\x00-\x20\x7F]/n)
          return key
        end

        raise ArgumentError,
              "a key in memcached is 1 to 250 bytes, without blanks and control characters"
      end
    end
  end
end
