# frozen_string_literal: true

module Plock
  module Locking
    # The properties of a store.
    module Identity
      # @api private
      # @return [StoreConfig]
      attr_accessor :config

      # @return [Boolean] is the server trusted without a check of its certificate, as with TLS
      #   and `verify: :none`?
      def unverified? = false

      # @return [Boolean] is the store closed? The next call opens it again.
      def closed? = @closed

      # @return [String]
      def inspect = "#<#{self.class} #{url}>"
    end
  end
end
