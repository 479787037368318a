# frozen_string_literal: true

module Plock
  class Store
    class Database
      # One request for a key, from the first attempt to the lease, or to the end of patience.
      #
      # The first attempt is one statement. Where that does not do, the request gets a place in the line, and waits to be called; it
      # looks for itself too, seldom where it can be called, and at growing intervals where it cannot.
      #
      # @api private
      class Asking
        # A place is lost whose owner gave no sign of life for so long. Seconds, as all others.
        PLACE_S = 4.0

        # How often one looks who can be called.
        CALLED_S = 1.0

        # How often one looks who cannot: first, by which factor longer each time, and at most.
        FIRST_S = 0.004
        FACTOR = 1.5
        MOST_S = 0.25

        # After the store failed.
        FAILURE_S = (0.02..0.5).freeze

        # The end of a lease is looked for so much after it.
        LATE_S = 0.001

        # How long subscribing may hold up a request that is to wait.
        LISTEN_S = 1.0

        # @param site [Site]
        # @param grant [Grant] that is to be given
        # @param ttl [Float] seconds
        def initialize(site, grant, ttl)
          @site = site
          @tables = site.tables
          @grant = grant
          @key = grant.key
          @token = grant.token
          @share = grant.share
          @ttl = ttl
          @holder = site.record(grant.label, @token)
          @queued = @contended = @doubt = @failed = false
        end

        # @return [Boolean] was somebody else there before?
        def contended? = @contended

        # @param wait [Float] seconds
        # @return [Boolean] has the grant been given?
        def run(wait)
          started = Clock.now
          @patience = started + wait
          @until = [@patience, started + @site.attempt_timeout].max
          failures = 0
          begin
            wait.positive? ? run_with_patience : try
          rescue UnavailableError => e
            @failed = true
            raise if !left.positive? || @site.reach.lost?(e, started)

            start_again
            sleep([FAILURE_S.begin * 2**(failures += 1), FAILURE_S.end, left].min * rand(0.5..1.0))
            retry
          end
        end

        # It came to nothing, or its lease to nobody: all of it is given back.
        #
        # @return [void]
        def leave
          @site.turns.close(@token) if @turn
          @grant.fence && @grant.ended.nil? ? @grant.release(0.0) : (settle if @doubt || @queued)
        rescue *Locking::Taking::STORE_FAILURES
          settle_later
        end

        private

        def left = @patience - Clock.now

        # @return [Boolean]
        def try
          return true if @share.nil? && acquire
          return false if @share.nil? && held?

          ask(false)
        end

        def run_with_patience
          return true if !@queued && first_attempt

          line_up
          return true if ask(true)

          wait_for_turn
        end

        # Where it can be called already, it can as well ask with a place in the line.
        def first_attempt
          return acquire if @share.nil?

          !@site.hearing? && ask(false)
        end

        # One statement.
        def acquire
          granting do
            @site.work(@until) do |connection|
              asked_at = Clock.now
              fence = @tables.acquire(connection, @key, @token, @site.micros(@ttl), @holder, @until)
              @contended = fence.nil?
              fence && [fence, asked_at]
            end
          end
        end

        def held?
          @site.work(@until) { |connection| @tables.held_for(connection, @key, @until) }.positive?
        end

        # Sees to it that it can be called, before anybody could.
        def line_up
          return if @turn

          @turn = @site.turns.open(@token)
          @site.listen([Clock.now + LISTEN_S, @until].min)
        end

        # Looks at the line under the key's lock.
        #
        # @param queue [Boolean] is it to wait there?
        # @return [Boolean]
        def ask(queue)
          following = nil
          granted = granting do
            @site.work_on(@key, @until) do |connection, head, line|
              asked_at = Clock.now
              place = line.place(@token)
              if line.before(place).zero? && line.room?(@share&.mode, @share&.limit)
                fence = head.next_fence
                following = enter(connection, fence, line, place)
                next [fence, asked_at]
              end
              wait_there(connection, head, line, place, queue)
              nil
            end
          end
          @site.call(following, @until) if following
          granted
        end

        # @yieldreturn [Array(Integer, Float), nil] the fence, and when it was asked for
        # @return [Boolean]
        def granting
          @doubt = true
          fence, asked_at = yield
          @grant.given(fence, asked_at, @ttl) if fence
          @queued = false if fence
          @doubt = false
          !fence.nil?
        end

        # @return [Tables::Claim, nil] who can come in, too
        def enter(connection, fence, line, place)
          rest = line.after(remove: [place].compact)
          waiting = rest.waiting.any?
          if @share
            @tables.remove(connection, line.gone.map(&:id), @until)
            share(connection, fence, place)
            @tables.mark(connection, @key, fence, waiting, @until)
            rest.after(add: [Tables::Claim.new(nil, @token, @share.mode, @share.limit, fence)]).next_inside
          else
            @tables.remove(connection, (line.gone + [place].compact).map(&:id), @until)
            @tables.occupy(connection, @key, @token, fence, @site.micros(@ttl), @holder, waiting, @until)
            nil
          end
        end

        def share(connection, fence, place)
          span = @site.micros(@ttl)
          if place then @tables.admit(connection, place.id, fence, span, @until)
          else @tables.enter(connection, @key, @token, @share, fence, span, @holder, @until)
          end
        end

        def wait_there(connection, head, line, place, queue)
          @contended = true
          @left = line.left / Site::MICROSECONDS
          @first = line.before(place).zero?
          @tables.remove(connection, line.gone.map(&:id), @until)
          keep_place(connection, place) if queue
          waiting = queue || line.waiting.any?
          @tables.flag(connection, @key, waiting, @until) if waiting != (head.waiting == 1)
        end

        def keep_place(connection, place)
          @queued = true
          span = @site.micros(PLACE_S)
          if place then @tables.stay(connection, @token, span, @until)
          else @tables.enter(connection, @key, @token, @share, nil, span, @holder, @until)
          end
        end

        # @return [Boolean]
        def wait_for_turn
          pause = FIRST_S
          while left.positive?
            called = @turn.await([pause_of(pause), left].min)
            return false unless called || left.positive?

            pause = called ? FIRST_S : [pause * FACTOR, MOST_S].min
            return true if (called || turn?) && (claim || ask(true))
          end
          false
        end

        def pause_of(pause)
          longest = @site.hearing? ? CALLED_S : pause * rand(0.5..1.0)
          @first && @left.positive? ? [longest, @left + LATE_S].min : longest
        end

        # One statement, where the database has one for it.
        def claim
          return false unless @share.nil? && @tables.respond_to?(:claim)

          granting do
            @site.work(@until) do |connection|
              asked_at = Clock.now
              fence = @tables.claim(connection, @key, @token, @site.micros(@ttl), @until)
              fence && [fence, asked_at]
            end
          end
        end

        # Without a lock. It keeps its place by that.
        def turn?
          @site.work(@until) do |connection|
            left, @first, place = @tables.look(connection, @key, @token, @until)
            return true unless place # it was thought to be gone

            @left = left / Site::MICROSECONDS
            @tables.stay(connection, @token, @site.micros(PLACE_S), @until) if place < @site.micros(PLACE_S / 2)
            @first && @left <= 0
          end
        end

        # What the last attempt has come to is not known: it is taken back, and a new token has nothing to do with it.
        def start_again
          settle_later if @doubt || @queued
          @site.turns.close(@token) if @turn
          @turn = nil
          @queued = @doubt = @failed = false
          @grant.rename(@token = Plock.token)
          @holder = @site.record(@grant.label, @token)
        end

        # At once where the database answers, so that whoever comes next finds nothing of it.
        def settle
          return settle_later if @failed

          deadline = Clock.now + @site.release_timeout
          @site.settle(@key, @token, deadline)
          settle_later if @doubt
        end

        def settle_later
          @site.settle_later(@key, @token, Clock.now + @ttl + PLACE_S)
        end
      end
    end
  end
end
