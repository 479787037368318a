# frozen_string_literal: true

require "openssl"
require_relative "../errors"

module Plock
  class ClientAddress
    # Converts a client's `ssl_params` to options of {Plock::Store.open}. If plock does not
    # support a parameter, it refuses the client, because the parameter may decide which server is
    # trusted.
    module TLSParameters
      # The value of each of these must name a file or a folder. Clients also accept a certificate
      # or key that exists only in memory; plock does not.
      FILES = %i[ca_file ca_path cert key].freeze

      # Values of `min_version` that change nothing, because plock always requires TLS 1.2 or
      # later.
      MINIMAL_VERSIONS = [
        nil, :TLS1, :TLS1_1, :TLS1_2, OpenSSL::SSL::TLS1_VERSION, OpenSSL::SSL::TLS1_1_VERSION,
        OpenSSL::SSL::TLS1_2_VERSION
      ].freeze

      # Options that belong together: the trusted certificates, and the client's certificate with
      # its key.
      TRUSTED = %i[ca_file ca_path].freeze
      PAIR = %i[cert key].freeze

      private_constant :FILES, :MINIMAL_VERSIONS, :TRUSTED, :PAIR

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

        # Returns those options of the sentinels that differ from the servers' options. For all
        # other options, plock uses the servers' values. So if the client has a certificate only for
        # its servers, plock also shows it to a sentinel that asks for a certificate. That does not
        # change which server plock trusts.
        #
        # @param parameters [Hash{Symbol, String => Object}] the client's parameters for sentinels
        # @param servers [Hash{Symbol => Object}] the result of {read} for the servers
        # @return [Hash{Symbol => Object}] the options, without the prefix `sentinel_`
        # @raise [UnsupportedError]
        def of_sentinels(parameters, servers)
          own = read(parameters)
          trusted, pair = [TRUSTED, PAIR].map do |names|
            own.slice(*names) == servers.slice(*names) ? {} : own.slice(*names)
          end
          if own[:verify] != :none && own.slice(*TRUSTED).empty? && servers.slice(*TRUSTED).any?
            raise UnsupportedError,
                  "plock cannot take over that the client's sentinels trust the system's " \
                  "certificates, and its servers those of ca_file or ca_path"
          end
          { **trusted, **verify(own, trusted.empty? ? servers : {}), **pair,
            **server_name(own, servers) }
        end

        private

        # @param inherited [Hash{Symbol => Object}] the options that sentinels use if they have none
        #   of their own
        def verify(own, inherited)
          mode, default = [own, inherited].map { |options| options.fetch(:verify, :peer) }
          mode == default ? {} : { verify: mode }
        end

        # If only the servers have a `server_name`, returns an empty name, so that the sentinels do
        # not inherit the servers' name.
        def server_name(own, servers)
          name = own[:server_name]
          name == servers[:server_name] ? {} : { server_name: name || "" }
        end

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
