# frozen_string_literal: true

require "json"
require_relative "../../locking/arguments"
require_relative "errors"

module Plock
  module Guard
    # The key of one job.
    #
    # @api private
    module Key
      class << self
        # @param guard [Options]
        # @param job_class [String] the name of the class
        # @yieldparam plain [Boolean] if true, the block returns the arguments as values that JSON
        #   can represent, for a digest. If false, it returns the arguments that `perform`
        #   receives.
        # @yieldreturn [Array] the arguments
        # @return [String, Symbol]
        # @raise [InvalidKey]
        def of(guard, job_class, &arguments)
          return "job:#{job_class}:#{Plock.digest(canonical(yield(true)))}" if guard.key.nil?
          return guard.key if guard.key.is_a?(String)

          check(job_class, answer(guard, job_class, &arguments))
        end

        # Returns the same text for equal values. The text depends neither on the order of a Hash
        # nor on the version of a JSON library.
        #
        # @return [String]
        def canonical(value)
          case value
          when Hash
            pairs = value.map { |name, item| [name.to_s, item] }.sort_by(&:first)
            "{#{pairs.map { |name, item| "#{JSON.generate(name)}:#{canonical(item)}" }.join(",")}}"
          when Array then "[#{value.map { |item| canonical(item) }.join(",")}]"
          when Float, Integer then value.to_s
          else JSON.generate(value)
          end
        end

        private

        def answer(guard, job_class)
          guard.key.call(*yield(false))
        rescue StandardError => e # the application's code, which may raise any error
          raise InvalidKey.new(
            "the key: of #{job_class} raised #{e.class}: #{e.message}",
            code: :bad_key
          )
        end

        def check(job_class, key)
          Locking::Arguments.key(key)
          key
        rescue ArgumentError
          raise InvalidKey.new(
            "the key: of #{job_class} answered #{key.inspect[0, 100]}: it must be a String or " \
              "Symbol of 1 to #{Locking::Arguments::KEY_MAX_BYTES} bytes, such as \"import:42\"",
            code: :bad_key
          )
        end
      end
    end
  end
end
