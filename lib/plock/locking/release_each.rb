# frozen_string_literal: true

require_relative "../errors"

module Plock
  module Locking
    # Releases several keys, for stores that release one key after another.
    #
    # @api private
    module ReleaseEach
      # A release that fails does not stop the others. Neither does an interrupt, which can arrive
      # here because interrupts are not masked under a Fiber scheduler.
      #
      # @param raises [Boolean] raise the first failure, after all releases have been tried?
      # @param later [#call, nil] after an interrupt, releases each hold that this method had not
      #   yet tried to release; nil: the block releases these holds too
      # @yieldparam hold [Object] the hold to release
      # @yieldreturn [Boolean, nil] was the hold still ours? nil: it had already been released or
      #   handed over
      # @return [Array<Boolean, nil>] the block's answers; true for a release that failed
      def self.call(holds, raises: true, later: nil, &release)
        failure = nil
        left = holds.dup
        answers = holds.map do
          release.call(left.shift)
        rescue UnavailableError => e
          failure ||= e
          true
        end
        raise failure if failure && raises

        answers
      ensure
        left.each { |hold| later ? later.call(hold) : attempt(hold, &release) } if left&.any?
      end

      def self.attempt(hold)
        yield hold
      rescue UnavailableError
        nil # the caller receives the interrupt instead
      end
      private_class_method :attempt
    end
  end
end
