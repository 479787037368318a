# frozen_string_literal: true

module Plock
  class Store
    class Database
      # One attempt to take several keys, all or none.
      #
      # @api private
      class Group
        # @param site [Site]
        # @param grants [Array<Grant>] that are to be given
        # @param ttl [Float] seconds
        def initialize(site, grants, ttl)
          @site = site
          @tables = site.tables
          @grants = grants
          @ttl = ttl
          @doubt = false
        end

        # Those who seem to wait may all be gone: then it is tried once more.
        #
        # @return [Integer, nil] nil: they are given; else of one that is held or waited for
        def run
          @deadline = Clock.now + @site.attempt_timeout
          refused = attempt
          refused && @site.tidy(@grants[refused].key, @deadline) ? attempt : refused
        end

        # They came to nobody: all are given back.
        #
        # @return [void]
        def leave
          given, others = @grants.partition { |grant| grant.fence && grant.ended.nil? }
          deadline = Clock.now + @site.release_timeout
          given.each { |grant| give_back(grant, deadline) }
          others.each { |grant| settle(grant) } if @doubt
        rescue *Locking::Taking::STORE_FAILURES
          others.each { |grant| settle_later(grant) } # what is released already is none the worse for it
        end

        private

        def attempt
          @doubt = true
          refused = asked_at = nil
          fences = @site.work(@deadline) do |connection|
            asked_at = Clock.now
            connection.transaction(@deadline, if_true: true) do
              @grants.map do |grant|
                refused = grant
                acquire(connection, grant) || break
              end
            end
          end
          return give(fences, asked_at) if fences

          @doubt = false
          @grants.index(refused)
        end

        # @return [nil]
        def give(fences, asked_at)
          @grants.zip(fences) { |grant, fence| grant.given(fence, asked_at, @ttl) }
          @doubt = false
          nil
        end

        def acquire(connection, grant)
          holder = @site.record(grant.label, grant.token)
          @tables.acquire(connection, grant.key, grant.token, @site.micros(@ttl), holder, @deadline)
        end

        # One that cannot be released keeps none of the others from it: else those would be taken for forgotten.
        def give_back(grant, deadline)
          grant.release(0.0, deadline)
        rescue *Locking::Taking::STORE_FAILURES
          settle_later(grant)
        end

        def settle(grant)
          @site.settle(grant.key, grant.token, Clock.now + @site.release_timeout)
          settle_later(grant)
        end

        def settle_later(grant)
          @site.settle_later(grant.key, grant.token, Clock.now + @ttl)
        end
      end
    end
  end
end
