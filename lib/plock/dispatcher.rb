# frozen_string_literal: true

require_relative "background"
require_relative "log"

module Plock
  # The one thread on which Ruby hears what native threads have seen: that a lease is lost, was
  # renewed, or was collected without having been released. It is started when there is first
  # something to hear, and again after a fork.
  #
  # A lease is known here by the id of its hold, and weakly: a lease without references can be
  # collected.
  #
  # @api private
  module Dispatcher
    MAIN = Ractor.current
    private_constant :MAIN

    @lock = Mutex.new
    @posted = Thread::Queue.new
    @leases = ObjectSpace::WeakMap.new
    @pid = Process.pid # to which they belong
    @thread = @surroundings = nil

    class << self
      # Wraps every notice: it is called with a block, and calls that block. An application that
      # reloads code, or keeps state for each thread, needs to know when its code runs. nil: no
      # wrapper.
      #
      # @return [#call, nil]
      attr_accessor :surroundings

      # @return [Boolean] is this the Ractor that hears? In another one nothing here can be seen.
      def here?
        Ractor.current.equal?(MAIN)
      end

      def start
        return unless here?
        return if @thread&.alive? && @pid == Process.pid

        @lock.synchronize do
          start_afresh unless @pid == Process.pid
          @thread = Background.launch("plock notices") { run } unless @thread&.alive?
        end
      rescue ThreadError # in a signal handler, which may lock nothing
        start_afresh unless @pid == Process.pid
        Background.launch { start }
      end

      # Has the lease told of what happens to its hold.
      #
      # @param id [Integer]
      # @param lease [Lease]
      def watch(id, lease)
        return unless here?

        start
        @leases[id] = lease
      end

      # Adds a notice that does not come from native code: one that {handle} knows, or something to
      # call. Finalizers call this as well, so it takes no lock.
      #
      # @param notice [Array, #call]
      def post(notice)
        @posted << notice
        Plock.wake_notices
      end

      # Has a block called on the dispatcher's thread: at once if that is the current thread, so
      # that {#flush} waits for this block as well.
      def hear(&block)
        Thread.current.equal?(@thread) ? block.call : post(block)
      end

      # Waits until everything that was noticed so far has been told. At the end of the process no
      # notice is delivered.
      def flush
        return if Thread.current.equal?(@thread) || Background.over?

        start
        told = Thread::Queue.new
        post(-> { told << true })
        told.pop
      end

      # Runs on the dispatcher's thread, so that {#flush} waits for this as well.
      #
      # @param key [String] in the store
      # @param fence [Integer]
      def tell_of_abandoned(key, fence)
        Log.warn(Plock.logger, "a lease of #{key} (fence #{fence}) was collected by the " \
                               "garbage collector without having been released: it is released " \
                               "now. Use a block, or call release.")
      end

      # On its own thread: a release found no connection, went on in the background, and failed
      # there.
      #
      # @param key [String] in the store
      # @param fence [Integer]
      def tell_of_unreleased(key, fence)
        Log.warn(
          Plock.logger,
          "the lease on #{key} (fence #{fence}) could not be released in the background: " \
            "it ends with its ttl"
        )
      end

      private

      # Of what was posted in the parent, nothing concerns a child.
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

      # A WeakMap can have another object in the place of one that was collected: see
      # {Locking::OwnShares}.
      def lease_of(id)
        lease = @leases[id]
        lease if Lease === lease && lease.hold&.id == id
      end

      def handle(notice)
        return notice.call unless notice.is_a?(Array)

        kind, subject, detail = notice
        case kind
        when :lost then lease_of(subject)&.lose
        when :renewed then lease_of(subject)&.renewed(detail)
        when :abandoned then tell_of_abandoned(subject, detail)
        when :unreleased then tell_of_unreleased(subject, detail)
        end
      end
    end
  end
end
