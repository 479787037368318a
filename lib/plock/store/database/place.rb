# frozen_string_literal: true

require_relative "../acquire_request"

module Plock
  class Store
    class Database
      # What a request waits on, while it has a place in the queue of a key: another process, or this one, calls it by its token.
      #
      # @api private
      class Place < AcquireRequest::Place
        # How long subscribing may hold up a request that is to wait. Seconds.
        LISTEN_S = 1.0

        def initialize(site, request)
          @site = site
          @request = request
          open
        end

        def ready
          @site.listen(Clock.now + [LISTEN_S, @request.left].min)
        end

        def callable? = @site.hearing?

        def await(seconds) = @turn.await(seconds)

        def leave = @site.turns.close(@token)

        def renew
          Thread.handle_interrupt(Object => :never) do
            leave
            open
          end
        end

        private

        def open
          @token = @request.grant.token
          @turn = @site.turns.open(@token)
        end
      end
    end
  end
end
