# frozen_string_literal: true

require_relative "arena"

module Torture
  module Sentinel
    # Looks all the time at the role of each server, and at the primary that each sentinel names.
    # It also writes the time to each primary. So a replica's copy of that time tells how much of
    # the data the replica has.
    class Overseer
      PAUSE = 0.015
      # How long the sentinels take to tell every client. TOLD_LATE applies if a sentinel has an
      # outage, because a client may listen to that sentinel for two seconds, and needs some time
      # to notice the outage.
      TOLD = SECOND
      TOLD_LATE = 6 * SECOND
      LISTENS = 2 * SECOND # how long a client listens to one sentinel, before it asks the next

      # From `at` on, a server has the role `what`, or a sentinel names the port `what`. before: the
      # time of the last look before `at`. beat: the time in Arena::BEAT on the server at `at`; nil
      # for a sentinel.
      Turn = Struct.new(:before, :at, :what, :beat)

      def initialize(arena)
        @arena = arena
        @began = Clock.now
        @roles = arena.servers.to_h { |server| [server, []] }
        @names = arena.sentinels.to_h { |sentinel| [sentinel, []] }
        @beats = {}
        @choices = [[@began, arena.primary]]
        @last_looks = {}.compare_by_identity
        @threads = [*@roles.keys.map { |server| watch(server) { |client| role(server, client) } },
                    *@names.keys.map { |one| watch(one) { |client| naming(one, client) } }]
      end

      def stop
        @stopped = true
        @threads.each(&:join)
      end

      # Do all sentinels name one primary, and do both replicas have all of its recent data?
      def ready?
        primary = @arena.primary
        return false unless @names.values.all? { |turns| turns.last&.what == primary.port }
        return false unless @roles.count { |_, turns| turns.last&.what == "master" } == 1

        @roles.keys.all? { |server| (@beats[server] || 0) > Clock.now - (SECOND / 4) }
      end

      # Have most sentinels named a different server as the primary for this many seconds?
      def named_other_for?(server, seconds)
        at, primary = @choices.last
        primary != server && Clock.now - at >= Torture.ns(seconds)
      end

      # The state of the group, in words for the maintainer.
      def state
        lags = @beats.transform_values { |beat| (Clock.now - beat) / MILLISECOND }
        roles = @roles.map { |one, turns| "#{one.port} #{turns.last&.what} #{lags[one]} ms" }
        names = @names.values.map { |turns| turns.last&.what }
        "servers #{roles.join(", ")}; named #{names.join(", ")}"
      end

      # @return [Array<Array>] [from, to] of each time without a primary: most sentinels named a
      #   server that did not have this role
      def downs
        now = Clock.now
        @choices.each_with_index.flat_map do |(from, server), i|
          to = @choices[i + 1]&.first || now
          without_role(server, now).filter_map do |began, over|
            span = [[from, began].max, [to, over].min]
            span if span[0] < span[1]
          end
        end
      end

      # @param outages [Array<Array>] [sentinel, from, to] of each outage of a sentinel
      def failovers(outages)
        now = Clock.now
        promotions = @roles.flat_map do |server, turns|
          turns.each_with_index.drop(1).select { |turn, _| turn.what == "master" }
               .map { |turn, i| [server, turn, turns[i + 1]&.at || now] }
        end
        promotions.filter_map { |server, turn, to| failover(server, turn, to, outages, now) }
                  .sort_by(&:promoted)
      end

      private

      def without_role(server, now)
        turns = @roles[server]
        turns.each_with_index.filter_map do |turn, i|
          [turn.before, turns[i + 1]&.at || now] unless turn.what == "master"
        end
      end

      def watch(node)
        Thread.new do
          client = new_client(node)
          until @stopped
            yield client
            sleep PAUSE
          end
        ensure
          client&.close
        end
      end

      def new_client(node)
        return @arena.client(node) if @roles.key?(node)

        RedisClient.config(path: node.unix_path, timeout: Arena::TIMEOUT, reconnect_attempts: 0)
                   .new_client
      end

      def role(server, client)
        turns = @roles[server]
        asked_at = Clock.now
        (what,), beat = client.pipelined do |pipe|
          pipe.call("ROLE")
          pipe.call("GET", Arena::BEAT)
        end
        note(turns, asked_at, what, beat&.to_i)
        @beats[server] = beat.to_i
        # Writes the time to a primary, but not in the look in which it has just become one. Its
        # copy of the old primary's time tells how much data it had when it was promoted.
        client.call("SET", Arena::BEAT, Clock.now) if what == "master" && turns.last.at < asked_at
      rescue RedisClient::Error
        note(turns, asked_at, nil, nil)
      end

      def naming(sentinel, client)
        asked_at = Clock.now
        words = %w[SENTINEL get-master-addr-by-name]
        port = client.call(*words, Support::Sentinels::NAME)&.last.to_i
        note(@names[sentinel], asked_at, port, nil)
        choose
      rescue RedisClient::Error
        nil # the sentinel is down or does not answer
      end

      def note(turns, asked_at, what, beat)
        last = turns.last
        if last.nil? || last.what != what
          turns << Turn.new(@last_looks.fetch(turns, @began), Clock.now, what, beat)
        end
        @last_looks[turns] = asked_at
      end

      # Notes the primary that most sentinels name.
      def choose
        port, votes = @names.values.filter_map { |turns| turns.last&.what }.tally.max_by(&:last)
        return if votes * 2 <= @names.size

        primary = @arena.servers.find { |server| server.port == port }
        return if primary.nil? || primary == @arena.primary

        @choices << [Clock.now, primary]
        @arena.primary = primary
      end

      # Returns the Failover of this promotion. Returns nil if no sentinel began to name the server.
      # Then there was no failover: the server had been the primary before, and came back as that.
      def failover(server, promotion, to, outages, now)
        named = @names.filter_map do |sentinel, turns|
          turn = turns.drop(1).find do |one|
            one.what == server.port && one.at.between?(promotion.before, to)
          end
          [sentinel, turn] if turn
        end
        return if named.empty?

        first = named.map { |_, turn| turn.at }.min
        last = last_naming(named, outages, first, now)
        told = outages.none? do |_, from, back|
          from < last + TOLD && first - LISTENS < (back || now)
        end
        over = last + (told ? TOLD : TOLD_LATE)
        Chronicle::Failover.new(from: [promotion.beat || @began, promotion.at].min, named: last,
                                promoted: promotion.at, over: over, port: server.port, told: told)
      end

      # When the last sentinel began to name the new primary. A sentinel does not count if it had an
      # outage after the first sentinel had named the new primary.
      def last_naming(named, outages, first, now)
        @names.keys.filter_map { |sentinel|
          at = named.assoc(sentinel)&.last&.at || now
          away = outages.any? do |one, from, to|
            one == sentinel && from < at && first < (to || now)
          end
          at unless away
        }.max || first
      end
    end
  end
end
