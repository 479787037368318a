# frozen_string_literal: true

require_relative "../guard/job_state"

module Plock
  module Sidekiq
    # The tickets in what Sidekiq keeps of a job: of a job of its own, and of an ActiveJob in its
    # wrapper.
    #
    # @api private
    module Payload
      NAME = Guard::JobState::NAME

      # Sidekiq gives a failed job to its error handlers, and its own handler logs the whole job.
      # This handler runs before them and removes the ticket. Sidekiq retries another copy of the
      # job.
      SCRUB = ->(_error, context, _config) do
        Payload.scrub(context[:job]) if context[:job].is_a?(Hash)
      end

      # How a ticket shows in the text of a job, for a first look without parsing it.
      MARK = "\"#{NAME}\":{"

      CLASS = /\A(?:::)?[[:upper:]][[:word:]]*(?:::[[:upper:]][[:word:]]*)*\z/
      private_constant :CLASS

      class << self
        # @param item [Hash]
        # @return [Array<Guard::JobState>]
        def tickets(item)
          places(item).map { |place| Guard::JobState.read(place[NAME]) }
        end

        # @param item [Hash]
        # @return [Guard::Options, nil] of the job's class, if this process has loaded it
        def guard(item)
          job_class = class_named((item["wrapped"] || item["class"]).to_s)
          job_class.plock_guard if job_class.respond_to?(:plock_guard)
        end

        # What another language calls its classes need be no name of Ruby's.
        #
        # @param name [String]
        # @return [Module, nil]
        def class_named(name)
          return unless name.match?(CLASS)

          name.delete_prefix("::").split("::").inject(Object) do |scope, part|
            scope.const_get(part) if scope.is_a?(Module) && scope.const_defined?(part)
          end
        end

        # @param item [Hash]
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
