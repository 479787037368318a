# frozen_string_literal: true

require_relative "../guard/ticket"

module Plock
  module Sidekiq
    # The tickets in what Sidekiq keeps of a job: of a job of its own, and of an ActiveJob in its wrapper.
    #
    # @api private
    module Payload
      NAME = Guard::Ticket::NAME

      # Sidekiq gives a job that has failed to its error handlers, and the first one of its own logs it whole: before them all, the
      # ticket is taken out. What is tried again is not this copy.
      SCRUB = ->(_error, context, _config) { Payload.scrub(context[:job]) if context[:job].is_a?(Hash) }

      # How a ticket shows in the text of a job, for a first look without parsing it.
      MARK = "\"#{NAME}\":{"

      class << self
        # @param item [Hash]
        # @return [Array<Guard::Ticket>]
        def tickets(item)
          places(item).map { |place| Guard::Ticket.read(place[NAME]) }
        end

        # @param item [Hash]
        # @return [void]
        def scrub(item)
          places(item).each { |place| place.delete(NAME) }
        end

        private

        def places(item)
          wrapped = item["args"].first if item["wrapped"] && item["args"].is_a?(Array)
          [item, wrapped].select { |place| place.is_a?(Hash) && place.key?(NAME) }
        end
      end
    end
  end
end
