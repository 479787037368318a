# frozen_string_literal: true

require "openssl"
require "plock"
require "redis-client"
require "uri"

module Demo
  # The server of PLOCK_URL. On this server, the demo deletes only the keys that it has made,
  # because they would otherwise stay until they expire.
  class GivenServer
    PATIENCE_S = 5
    LOOK_AGAIN_S = 0.01
    CERTIFICATES = %w[ca_file ca_path cert key].freeze

    attr_reader :url, :name

    def initialize(url)
      @url = url
      store = Plock::Store.open(url)
      @name = store.url # the URL without the password
      store.close
      client.call("PING")
    end

    # The server may receive the last request of a process after the process has ended. So the keys
    # are deleted after the server has closed the connections of these processes.
    def close(keys, pids)
      await_end_of(pids.map { |pid| "name=plock-#{pid}" })
      client.call("DEL", *keys)
    end

    private

    def await_end_of(names)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE_S
      while Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline &&
            (client.call("CLIENT", "LIST").split & names).any?
        sleep LOOK_AGAIN_S
      end
    rescue RedisClient::PermissionError
      nil # without permission to list connections, assume that the server has closed them
    end

    def client
      @client ||= RedisClient.config(url: @url, **credentials, ssl_params: ssl_params).new_client
    end

    # The user and the password, percent-decoded as plock decodes them: a plus sign stays a plus
    # sign.
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
