# frozen_string_literal: true

require_relative "background"
require_relative "brief_mutex"
require_relative "errors"
require_relative "events"
require_relative "log"

module Plock
  # The thread on which Ruby receives the notices of native threads. A notice says that a lease
  # was lost, was renewed, or was garbage-collected without a release. The thread is started
  # before the first notice can arrive, and again after a fork.
  #
  # The dispatcher finds a lease by the ID of its hold. It refers to leases weakly, so that an
  # unused lease can be collected.
  #
  # @api private
  module Dispatcher
    @lock = BriefMutex.new
    @posted = Thread::Queue.new
    @leases = ObjectSpace::WeakMap.new
    @pid = Process.pid # the process to which these variables belong
    @thread = @surroundings = nil

    # The event and the warning for each way in which a lease can end after its caller dropped it.
    #
    # * `:abandoned`: the lease was garbage-collected without a release
    # * `:expired`: the same, but it had expired or was lost, so there is nothing to release
    # * `:unreleased`: its release found no connection, went on in the background, and failed there
    # * `:lost_before`: it was lost in its block, whose release did not wait for the answer
    FATES = {
      abandoned: [
        :abandoned,
        "a lease of %s (fence %s) was collected by the garbage collector without having been " \
        "released: it is released now. Use a block, or call release."
      ],
      expired: [:abandoned, nil],
      unreleased: [
        :release_failed,
        "the lease on %s (fence %s) could not be released in the background: it ends with its ttl"
      ],
      lost_before: [
        :lost,
        "the lease on %s (fence %s) was lost before its block ended: another holder may have run " \
        "at the same time"
      ]
    }.freeze
    private_constant :FATES

    class << self
      # A wrapper that is called around every notice. It receives a block, and must call that
      # block. An application that reloads code, or keeps state for each thread, needs to know
      # when its code runs. nil: no wrapper.
      attr_accessor :surroundings

      # @raise [UnavailableError] the system cannot create another thread
      def start
        return unless Events.here?
        return if @thread&.alive? && @pid == Process.pid

        @lock.synchronize do
          start_afresh unless @pid == Process.pid
          @thread = launch("plock notices") { run } unless @thread&.alive?
        end
      rescue ThreadError # in a signal handler, which cannot lock a mutex
        start_afresh unless @pid == Process.pid
        launch { start }
      end

      # From now on, passes the notices about a hold to its lease.
      #
      # @param id [Integer] the ID of the hold
      def watch(id, lease)
        return unless Events.here?

        start
        @leases[id] = lease
      end

      # Adds a notice that does not come from native code. It is an Array that {handle} knows, or a
      # callable. Finalizers also call this method, so it takes no lock.
      def post(notice)
        @posted << notice
        Plock.wake_notices
      end

      # Calls a block on the dispatcher's thread. If that is the current thread, the block runs at
      # once. If the block were posted instead, a {#flush} that is already waiting would not wait
      # for it.
      def hear(&block) = Thread.current.equal?(@thread) ? block.call : post(block)

      # Waits until all notices posted so far have been delivered. Returns at once while the
      # process is ending, because notices are no longer delivered.
      def flush
        return if Thread.current.equal?(@thread) || Background.over?

        start
        told = Thread::Queue.new
        post(-> { told << true })
        told.pop
      end

      # Emits the event of a lease that no caller has any more, and warns if FATES has a warning.
      # This runs on the dispatcher's thread, so that {#flush} also waits for the warning.
      #
      # @param fate [Symbol] as in FATES
      # @param key [String] the key in the store
      def tell_of(fate, key, fence)
        event, warning = FATES.fetch(fate)
        Log.warn(Plock.logger, format(warning, key, fence)) if warning
        details = fate == :expired ? { expired: true } : {}
        Events.tell(event, 0.0, key, nil, fence: fence, **details)
      end

      private

      def launch(...)
        Background.launch(...)
      rescue ThreadError => e
        raise UnavailableError.new(
          "no thread is left to receive notices of leases: #{e.message}", code: :descriptors
        )
      end

      # Forgets all notices and leases of the parent, since none of them concerns a child.
      def start_afresh
        @pid = Process.pid
        @posted = Thread::Queue.new
        @leases = ObjectSpace::WeakMap.new
      end

      def run
        loop do
          Plock.await_notices
          while (notice = next_notice)
            Background.guard("a notice") do
              @surroundings ? @surroundings.call { handle(notice) } : handle(notice)
            end
          end
        end
      end

      def next_notice
        Plock.next_notice || (@posted.pop(true) unless @posted.empty?)
      end

      def lease_of(id) = known(id) || find(id)

      # Checks the object, because a WeakMap can return a different object in place of one that was
      # collected. See {Locking::OwnShares}.
      def known(id)
        lease = @leases[id]
        lease if Lease === lease && lease.hold&.id == id
      end

      # Searches all objects for a lease that was acquired in C for a block. {watch} is not called
      # for such a lease, because most blocks end before there is a notice. A registry of these
      # leases would have to be weak, but a WeakMap with objects as keys crashes Ruby 3.1 after
      # GC.compact.
      def find(id)
        ObjectSpace.each_object(Lease) do |lease|
          return @leases[id] = lease if lease.hold&.id == id
        end
        nil
      end

      def handle(notice)
        return notice.call unless notice.is_a?(Array)

        kind, subject, detail = notice
        case kind
        when :lost then lease_of(subject)&.hear_lost
        when :renewed then lease_of(subject)&.renewed(detail) if Events.wanted?(:renew)
        else tell_of(kind, subject, detail)
        end
      end
    end
  end
end
