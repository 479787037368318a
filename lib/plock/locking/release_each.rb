# frozen_string_literal: true

require_relative "../errors"

module Plock
  module Locking
    # The releases of several keys, in stores that release one after the other.
    #
    # @api private
    module ReleaseEach
      # A release that fails does not stop the others. Neither does an interrupt, which nothing
      # masks in a fiber.
      #
      # @param holds [Array<Object>]
      # @param raises [Boolean] the first failure, when all have been tried?
      # @param later [#call, nil] releases a hold whose turn an interrupt has taken; nil: as the
      #   others
      # @yieldparam hold [Object] to release
      # @yieldreturn [Boolean, nil] was it ours? nil: it was released, or handed over, before
      # @return [Array<Boolean, nil>] the answers; true if a release failed
      # @raise [UnavailableError]
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
        nil # the interrupt is on its way to the caller
      end
      private_class_method :attempt
    end
  end
end
