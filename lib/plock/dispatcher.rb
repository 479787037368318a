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
      # What everything is told within: is given a block, and calls it. An application that loads
      # code anew, or keeps things for each thread, wants to know what runs. nil: nothing.
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

      # What native code does not say: a notice as {handle} knows them, or something to call. From a
      # finalizer too, so that no lock is taken here.
      #
      # @param notice [Array, #call]
      def post(notice)
        @posted << notice
        Plock.wake_notices
      end

      # Has a block called on the dispatcher's thread: at once where that is this one, so that
      # whoever waits for the notices so far waits for this, too.
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

      # On its own thread, by what it was given to call, so that whoever waits for the notices so
      # far waits for this, too.
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
