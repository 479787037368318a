# frozen_string_literal: true

require_relative "../support/lines"

module Plock
  class Store
    class Database
      # The place of a request that waits in the database's queue. When the request's turn may have
      # come, this process or another one calls the request by its token.
      #
      # @api private
      class Place < Lines::Place
        # The largest number of seconds by which subscribing may delay a request that must wait.
        LISTEN_S = 1.0

        def initialize(site, request)
          @site = site
          @request = request
          super(site.turns, request.lease.token)
        end

        def ready
          @site.listen(Clock.now + [LISTEN_S, @request.left].min)
        end

        def first? = true

        def callable? = @site.hearing?

        def renew
          Thread.handle_interrupt(UNINTERRUPTED) do
            leave
            join(@request.lease.token)
          end
        end
      end
    end
  end
end
