# frozen_string_literal: true

require_relative "../guard/job_state"

module Plock
  module Sidekiq
    # Finds the tickets in the data that Sidekiq stores for a job. Sidekiq wraps an ActiveJob in a
    # job of its own, and the ticket is in the wrapped ActiveJob.
    #
    # @api private
    module Payload
      NAME = Guard::JobState::NAME

      # Sidekiq passes a failed job to its error handlers. Sidekiq's own handler logs the whole job,
      # and for an internal error also the job's text. This handler runs before the others, and
      # replaces the job and its text with copies that have no ticket. The job itself does not
      # change, because the death handlers may still need its ticket.
      SCRUB = ->(_error, context, _config) do
        context[:job] = Payload.scrubbed(context[:job]) if context[:job].is_a?(Hash)
        Payload.scrub_text(context)
      end

      # A ticket in the text of a job begins like this. A text without it need not be parsed.
      MARK = "\"#{NAME}\":{"

      class << self
        def tickets(item) = places(item).map { |place| Guard::JobState.read(place[NAME]) }

        def guard(item) = guard_of((item["wrapped"] || item["class"]).to_s)

        # If this process has not loaded the job's class, only the process that runs the job guards
        # it.
        #
        # @param job_class [Class, String]
        # @return [Guard::Options, nil]
        def guard_of(job_class)
          job_class = class_named(job_class) if job_class.is_a?(String)
          job_class.plock_guard if job_class.respond_to?(:plock_guard)
        end

        # @return [Hash] a copy without tickets
        def scrubbed(item)
          copy = item.except(NAME)
          wrapped = wrapped_in(item)
          copy["args"] = [wrapped.except(NAME), *item["args"].drop(1)] if wrapped
          copy
        end

        def scrub_text(context)
          text = context[:jobstr]
          return unless text.is_a?(String) && text.include?(MARK)

          context[:jobstr] = ::Sidekiq.dump_json(scrubbed(::Sidekiq.load_json(text)))
        rescue StandardError # the text is not a job's
          context.delete(:jobstr)
        end

        private

        # A job that another language pushed may have a class name that is not valid in Ruby. A
        # class whose file raises an error counts as not loaded here. The error is raised again when
        # the job starts.
        #
        # @return [Module, nil] nil if the name is not valid, or the class is not loaded
        def class_named(name)
          Object.const_get(name) if Object.const_defined?(name)
        rescue StandardError, ScriptError
          nil
        end

        def places(item)
          [item, wrapped_in(item)].select { |place| place.is_a?(Hash) && place.key?(NAME) }
        end

        def wrapped_in(item)
          wrapped = item["args"].first if item["wrapped"] && item["args"].is_a?(Array)
          wrapped if wrapped.is_a?(Hash)
        end
      end
    end
  end
end
