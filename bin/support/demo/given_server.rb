# frozen_string_literal: true

require "openssl"
require "plock"
require "redis-client"
require "uri"

module Demo
  # The server that PLOCK_URL names. The demo takes away the keys that it made there, which would otherwise stay until
  # their time is over, and touches no others.
  class GivenServer
    CERTIFICATES = %w[ca_file ca_path cert key].freeze

    attr_reader :url, :name

    def initialize(url)
      @url = url
      store = Plock::Store.open(url)
      @name = store.url # without the password
      store.close
      client.call("PING")
    end

    def close(*keys)
      client.call("DEL", *keys)
    end

    private

    def client
      @client ||= RedisClient.config(url: @url, **credentials, ssl_params: ssl_params).new_client
    end

    # Percent-decoded as plock does it: a plus sign is one.
    def credentials
      { username: URI(@url).user, password: URI(@url).password }
        .reject { |_, text| text.nil? || text.empty? }
        .transform_values { |text| URI.decode_www_form_component(text.gsub("+", "%2B")) }
    end

    def ssl_params
      options = URI.decode_www_form(URI(@url).query.to_s).to_h
      parameters = options.slice(*CERTIFICATES).transform_keys(&:to_sym)
      parameters[:verify_mode] = OpenSSL::SSL::VERIFY_NONE if options["verify"] == "none"
      parameters
    end
  end
end
