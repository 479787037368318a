# frozen_string_literal: true

module Model
  # The properties that must hold in every state.
  module Checks
    private

    # No two clients hold leases that exclude each other. Each client's own clock decides whether
    # its lease is over.
    def check_exclusion
      holders = clients.select { |client| holds?(client) }
      return check_shares(holders) if scenario.shared
      return if holders.size < 2

      # After a failover, a lease of the old primary and one of the new primary may exist at the
      # same time.
      excused = scenario.fails_over && !scenario.strict
      lines = excused ? [Failover::NEW, Failover::OLD] : [nil]
      lines.each { |other| check_alone(holders.reject { |client| client.line == other }) }
    end

    def check_alone(holders)
      return if holders.size < 2

      violate(
        :exclusion,
        "#{holders.map { |client| name(client.value) }.join(" and ")} both hold the lock"
      )
    end

    # Checks that all holders have the same mode, and that a writer is alone. There may be as many
    # holders as the largest of their limits allows, because the holder with that limit may have
    # been admitted last.
    def check_shares(holders)
      shares = shares_held
      if shares.size < 2 ||
         (
           shares.map { |share| share[0] }.uniq.size == 1 &&
             shares.size <= shares.map { |share| limit(share) }.max
         )
        return
      end

      names = holders.map { |client| "#{name(client.value)} (#{client.share})" }
      violate(:exclusion, "#{names.join(" and ")} are inside" \
                          "#{", and a place is kept" if shares.size > holders.size}")
    end

    # The shares of all holders, and of the places that stay taken after their leases have ended.
    def shares_held
      kept = inside.select { |place| place.kept && place.left.positive? }
      clients.select { |client| holds?(client) }.map(&:share) +
        kept.map { |place| place.mode == "s" ? share_of(place.value) : place.mode }
    end

    # Runs when time passes. By then, a process that has asked since the queue was lost has
    # regained all its places.
    def see_who_asked
      return unless scenario.faults.key?(:evict)

      nodes.each_with_index do |node, n|
        next unless node.asked && node.state == :up && node.heard && node.link == :on

        scenario.tenants[n].each { |i| clients[i].hurt = false if clients[i].phase == :waiting }
      end
    end

    # Runs when time passes, so all urgent steps are done by then.
    def measure_time
      check_batons
      check_told if scenario.fails_over
      check_outages if scenario.outage
      @idle = idle? ? @idle + 1 : 0
      violate(:idle, idleness) if @idle > scenario.idle
      # a failover also makes holders renew their leases
      renews = scenario.faults[:renew] || scenario.fails_over
      limit = scenario.ttl + (renews ? scenario.ttl : 0)
      @ghost = lock && ghost?(lock) ? @ghost + 1 : 0
      inside.map! do |place|
        place.dup.tap do |copy|
          copy.ghost = ghost?(place) && place.left.positive? ? place.ghost + 1 : 0
        end
      end
      oldest = [@ghost, *inside.map(&:ghost)].max
      if oldest > limit
        violate(:ghost, "the lock has been with a client that is gone for #{oldest} units")
      end
    end

    def idle?
      waiting = clients.select.with_index { |client, i| waits?(client, i) }
      return waiting.any? && !somebody_holds? unless scenario.shared

      first = waiting.min_by { |client| client.place || Float::INFINITY }
      !first.nil? && compatible?(first.share, shares_held)
    end

    def idleness
      return "for #{@idle} units the first waiter has been kept out by no client" if scenario.shared

      "no client has held the lock for #{@idle} units, although one waits"
    end

    WAITS = %i[looking subscribing asking waiting].freeze
    private_constant :WAITS

    def waits?(client, i)
      WAITS.include?(client.phase) && !client.quits && home(i).state == :up && !home(i).away
    end

    def somebody_holds? = lock&.kept || clients.any? { |client| holds?(client) }

    def compatible?(share, others)
      others.empty? || (others.all? { |other| other[0] == share[0] } && others.size < limit(share))
    end

    # No turn may be lost. A process that runs and listens must use its baton before any time
    # passes, unless a request to give up the baton is delayed.
    def check_batons
      [lock, *inside].each do |place|
        next unless place&.baton && place.left.positive?
        if requests.any? { |request|
             request.late && request.op != :acquire && request.value == place.value
           }
          next
        end

        node = home(owner(place.value))
        next unless node.state == :up && node.link == :on
        next if scenario.outage && late_turn?(place.value, node)
        next if scenario.fails_over && old_turn?(place.value, node)

        violate(:swallowed, "#{name(place.value)} has the turn, and its process runs and " \
                            "listens, but nothing happens")
      end
    end

    # Does a failover explain why the turn is not taken? It may bring back the turn of a client
    # that has been served already, or lose the message about the turn.
    def old_turn?(value, node)
      client = client_of(value)
      node.behind || node.missed == value || client.value != value ||
        !WAITS.include?(client.phase)
    end

    # Does this lock or place have a value that the value's client no longer uses?
    def ghost?(place)
      return false if place.kept

      client = client_of(place.value)
      client.value != place.value || client.phase == :gone
    end

    # No waiter is served before an earlier one that lives, has not given up and has not been
    # called. If a fault has cut a waiter off from its turn, later waiters may be served until that
    # waiter asks again.
    def check_order(value)
      chosen = client_of(value)
      return if scenario.delays || chosen.value != value || chosen.phase == :gone
      return if serving_twin? # each of the two primaries has its own queue
      # A failover may bring back the record of a client that was served or has left.
      return if scenario.fails_over && !WAITS.include?(chosen.phase)

      clients.each do |other|
        if other.place.nil? || other.equal?(chosen) || other.quits || excused?(other, chosen) ||
           called?(other.value)
          next
        end
        next if chosen.place && chosen.place < other.place

        violate(
          :order,
          "it is the turn of #{name(value)} before that of #{name(other.value)}, which came earlier"
        )
      end
      nil
    end

    # Has a fault cut this waiter off from its turn? An outage affects all waiters of a process
    # alike, so their order must still hold.
    def excused?(other, chosen)
      return other.hurt if other.hurt != :outage || other.early || chosen.early

      scenario.homes[owner(other.value)] != scenario.homes[owner(chosen.value)]
    end

    # Waiters that are called at the same time may enter in any order.
    def called?(value) = inside.any? { |place| place.value == value && place.left.positive? }

    def check_fence(fence)
      violate(:fence, "fence #{fence} after #{@issued}") if fence <= @issued
      @issued = fence if fence > @issued
    end
  end
end
