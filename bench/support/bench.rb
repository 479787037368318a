# frozen_string_literal: true

# Shared by the parent (run.rb) and the processes of the contestants (worker.rb,
# contender_worker.rb): the list of contestants and their server's address.
module Bench
  ROOT = File.expand_path("..", __dir__)
  LIB = File.expand_path("../lib", ROOT)
  GEMFILE = File.join(ROOT, "Gemfile")
  SECRET = "a secret for the bench, not for you"

  # The options of contenders. WAIT is longer than any wait in a measurement, so it only ends a
  # process that hangs.
  TTL = 10  # seconds
  WAIT = 30 # seconds

  class Failed < StandardError; end

  # One implementation on one transport.
  #
  # role: :floor (the reference of its family), :plock, :engine (plock below its public API), or
  # :peer.
  # gems: the gems of bench/Gemfile that it needs; none for plock and the floor.
  # family: the group in which it is compared: :lock; :kinds and :permits, locks with several keys
  # or holders; :local, locks without a server; :growth, stores under growing load; :remote_lock,
  # the drop-in; :topologies, several servers. In :topologies, only contestants with the same
  # transport are compared with each other.
  #
  # setup: receives the Address, and returns a callable. A call makes one pair, and returns :held,
  # the value of the locked block.
  # floor: in place of setup, if the contestant is the C program: a callable that receives the
  # Address, and returns the program's arguments.
  # contender: a callable, or nil if the contestant is not measured under contention. It is called
  # once in each process, with the Address, and returns a callable that makes a lock for one thread.
  # A lock is called with a key and a Proc, and returns the Proc's value.
  Contestant =
    Struct.new(
      :name, :label, :role, :family, :transport, :gems, :floor, :setup, :contender,
      keyword_init: true
    ) do
      def peer? = role == :peer
      def floor? = role == :floor
      def plock? = role == :plock
      def ours? = !peer? && !native?
      def native? = !floor.nil?
      def beside?(other) = [family, transport] == [other.family, other.transport]
    end

  # The addresses of the private server: its TCP port, and the path of its Unix socket.
  Address = Struct.new(:port, :socket) do
    def url(transport) = transport == :unix ? "unix://#{socket}" : "redis://127.0.0.1:#{port}/0"
  end

  @contestants = {}

  class << self
    def contestant(
      name, label:, role:, family: :lock, transport: :tcp, gems: [], floor: nil, &setup
    )
      @contestants[name] = Contestant.new(
        name: name, label: label, role: role, family: family, transport: transport, gems: gems,
        floor: floor, setup: setup
      )
    end

    # Adds a contestant to the measurements under contention. The block becomes its contender.
    def contender(name, &open)
      @contestants.fetch(name).contender = open
    end

    # All contestants, in the order of the table.
    def contestants
      if @contestants.empty?
        %w[
          floor
          plock
          plock_store
          plock_acquire
          redlock
          redis_mutex
          redis_semaphore
          older
          kinds
          permits
          remote_lock
          local
          growth
          topologies
        ].each { |file| require_relative "../contestants/#{file}" }
      end
      @contestants
    end

    # The current time in nanoseconds, on the clock that all processes of a machine share.
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  end
end
