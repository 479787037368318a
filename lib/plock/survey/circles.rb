# frozen_string_literal: true

module Plock
  class Survey
    # A thread that waits for a key that another thread holds, with the status of that key.
    Wait = Struct.new(:waiter, :status, :holder)

    # Finds threads that wait for one another. None of them can continue until a wait times out or
    # a lease expires. A lock becomes free when all its holders continue. A semaphore becomes free
    # when one of its holders continues.
    class Circles
      # @param statuses [Array<Status>] of keys that are waited for
      # @return [Array<Array<Wait>>] the waits of each circle. If several circles cross, only one
      #   of them is returned
      def self.in(statuses) = new(statuses).found

      def initialize(statuses)
        @waits = Hash.new { |all, thread| all[thread] = {} } # thread => { status => waiter }
        @holds = Hash.new { |all, thread| all[thread] = [] }
        @stuck = {} # status => how many of its holders cannot continue
        statuses.each { |status| note(status) }
        leave_out_those_that_go_on
      end

      def found
        seen = {}
        @waits.keys.filter_map do |thread|
          way, places = [], {}
          until seen.key?(thread)
            seen[thread] = true
            places[thread] = way.size
            way << next_wait(thread)
            thread = name(way.last.holder)
          end
          way.drop(places[thread]) if places.key?(thread)
        end
      end

      private

      def note(status)
        status.waiters.each do |waiter|
          thread = name(waiter)
          @waits[thread][status] ||= waiter if thread
        end
        holders = names(status.holders).compact
        holders.each { |thread| @holds[thread] << status }
        @stuck[status] = holders.size
      end

      def leave_out_those_that_go_on
        free = @holds.keys.reject { |thread| @waits.key?(thread) }
        @stuck.keys.each { |status| free.concat(let_go(status)) if open?(status) }
        until free.empty?
          @holds.fetch(free.pop, []).each do |status|
            next unless @stuck.key?(status)

            @stuck[status] -= 1
            free.concat(let_go(status)) if open?(status)
          end
        end
      end

      # Will the key become free if all holders that can continue do so? An unknown holder counts
      # as one that can continue.
      def open?(status)
        return @stuck[status].zero? unless status.kind == :semaphore

        @stuck[status] < names(status.holders).size
      end

      # @return [Array] the threads that waited for this key, and now wait for none
      def let_go(status)
        @stuck.delete(status)
        names(status.waiters).compact.select do |thread|
          @waits[thread].delete(status)
          @waits.delete(thread) if @waits[thread].empty?
        end
      end

      def next_wait(thread)
        status, waiter = @waits[thread].first
        Wait.new(waiter, status, status.holders.find { |holder| @waits.key?(name(holder)) })
      end

      def names(people) = people.map { |known| name(known) }.uniq

      def name(known) = ([known.host, known.pid, known.thread] if known.host && known.pid)
    end
  end
end
