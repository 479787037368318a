# frozen_string_literal: true

require_relative "../status"

module Plock
  module CLI
    # Keys as people name them: by what they call them, or by what `plock list` shows, where only the digest is known.
    module Locating
      STORE_KEY = /\Aplock:v1:(?:[A-Za-z0-9_.-]{1,32}:)?\h{64}\z/
      private_constant :STORE_KEY

      private

      # @return [String, Plock::Status] for {Locking#status} and {Locking#break}
      def target
        @key.match?(STORE_KEY) ? Plock::Status.new(nil, @key, nil) : @key
      end
    end
  end
end
