# frozen_string_literal: true

module Support
  # Threads that lock keys of a cluster while the slots of these keys move back and forth.
  module MovingSlots
    WORKERS = 12
    KEYS = 4
    TURNS = 6
    # Nodes may disagree about a slot's owner. Then no node serves the slot until
    # Cluster#await_agreement decides. That takes some seconds, and longer on a busy machine.
    DECIDED_S = 20
    PATIENT = { command_timeout: DECIDED_S, release_timeout: DECIDED_S }.freeze

    # Counts how many threads are inside at the same time.
    class Room
      # @return [Integer] the most threads that were inside at the same time, and the number of all
      #   entries
      attr_reader :most, :count

      def initialize
        @mutex = Mutex.new
        @now = @most = @count = 0
      end

      def enter
        @mutex.synchronize { @most = [@most, @now += 1].max }
        yield
      ensure
        @mutex.synchronize { (@now -= 1) && @count += 1 }
      end
    end

    # @param cluster [Cluster] without replicas
    # @param store [Plock::Store] opened with PATIENT
    # @param name [String] the prefix of the keys
    # @return [Array<Room>] one for each key
    def move_under_load(cluster, store, name)
      keys = Array.new(KEYS) { |number| "#{name}:#{number}" }
      rooms = keys.map { Room.new }
      stops = false
      workers = Array.new(WORKERS) do |number|
        background { enter_in_turn(store, keys, rooms, number % KEYS) until stops }
      end
      move_to_and_fro(cluster, keys.map { |key| cluster.slot(store.status(key).store_key) })
      stops = true
      workers.each { |worker| worker.join(30) }
      rooms
    end

    private

    def enter_in_turn(store, keys, rooms, index)
      store.acquire(keys[index], ttl: DECIDED_S, wait: DECIDED_S) do
        rooms[index].enter { sleep 0.001 }
      end
    end

    def move_to_and_fro(cluster, slots)
      TURNS.times do |turn|
        slots.each do |slot|
          cluster.move(slot, (cluster.servers - [cluster.settled_owner(slot)])[turn % 2])
        end
      end
    end
  end
end
