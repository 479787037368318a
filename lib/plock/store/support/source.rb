# frozen_string_literal: true

module Plock
  class Store
    # Converts the source that {Store.open} receives into the engine's form. Also has the text of
    # the warning about a store with unverified certificates.
    #
    # @api private
    module Source
      # Schemes are case-insensitive (RFC 3986, 3.1).
      SCHEME = /\A[A-Za-z][A-Za-z0-9+.-]*:/
      private_constant :SCHEME

      private

      # @return [Object] a String with the scheme in lower case, if the source is a String or a URI;
      #   any other source is unchanged
      def plain(source)
        source = source.to_s if defined?(URI::Generic) && URI::Generic === source
        return source unless String === source

        source = source.b unless source.valid_encoding? # a path need not be text
        source.sub(SCHEME) { |scheme| scheme.downcase }
      end

      # @return [String] the warning about a store with certificates that are not verified
      def distrust(store)
        if store.unverified_servers?
          "#{store.url} is used without verifying its certificate: any server that answers there " \
            "is trusted. Use verify: :peer."
        else
          "#{store.url} is used without verifying the certificates of its sentinels: any " \
            "sentinel that answers there is trusted. Use sentinel_verify: :peer."
        end
      end
    end
    private_constant :Source
  end
end
