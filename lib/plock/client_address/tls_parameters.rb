# frozen_string_literal: true

require "openssl"
require_relative "../errors"

module Plock
  class ClientAddress
    # A client's `ssl_params` as options of {Plock::Store.open}. A parameter that plock does not
    # support, and that may change which server is trusted, is refused rather than left out.
    module TLSParameters
      # These must be names of files; clients also take a certificate or a key that exists only in
      # memory.
      FILES = %i[ca_file ca_path cert key].freeze

      # Values that change nothing: plock requires TLS 1.2 or later in any case.
      MINIMAL_VERSIONS = [
        nil, :TLS1, :TLS1_1, :TLS1_2, OpenSSL::SSL::TLS1_VERSION, OpenSSL::SSL::TLS1_1_VERSION,
        OpenSSL::SSL::TLS1_2_VERSION
      ].freeze

      private_constant :FILES, :MINIMAL_VERSIONS

      class << self
        # @param parameters [Hash{Symbol, String => Object}]
        # @return [Hash{Symbol => Object}]
        # @raise [UnsupportedError]
        def read(parameters)
          parameters.each_with_object({}) do |(name, value), options|
            next if value.nil?

            name = name.to_sym
            case name
            when *FILES
              options[name] = file(name, value)
            when :verify_mode
              options[:verify] = mode(value)
            when :hostname, :server_name
              options[:server_name] = value
            when :verify_hostname
              value || refuse("verify_hostname: false")
            when :min_version
              MINIMAL_VERSIONS.include?(value) || refuse("min_version: #{value.inspect}")
            else
              refuse(name)
            end
          end
        end

        private

        def file(name, value)
          return value.to_path if value.respond_to?(:to_path)
          return value if value.is_a?(String) && !value.include?("-----BEGIN")

          refuse("#{name} that is not in a file")
        end

        def mode(value) = value == OpenSSL::SSL::VERIFY_NONE ? :none : :peer

        def refuse(what)
          raise UnsupportedError, "plock cannot take over the client's TLS parameter #{what}"
        end
      end
    end
  end
end
