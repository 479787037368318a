# frozen_string_literal: true

require "plock"

module Plock
  module CLI
    module Doctor
      # A store's server, and what the server reports about itself. plock asks the server over a
      # connection that has the address, credentials, TLS and time limits of a connection for locks.
      class Server
        LOCAL = /\A(localhost|127(\.\d{1,3}){3}|::1)\z/i
        UNIX = "unix:"
        HOST = %r{\Arediss?://\[?(.+?)\]?:\d+(/\d+)?\z} # finds the host in the URL of one server
        private_constant :LOCAL, :UNIX, :HOST

        attr_reader :store

        # @return [Array(String, String), nil] host and port of a node of a cluster; nil if the
        #   store is not a cluster
        attr_reader :place

        def initialize(store, place = nil)
          @store = store
          @place = place
          @conversation = store.converse(place)
          @info = {}
        end

        # @return [Object] the answer: nil, Integer, String or Array
        # @raise [Error]
        def ask(*words) = @conversation.ask(words)

        # Like {#ask}, but returns nil if the user may not run the command, or if the server answers
        # with an error, as it does for an unknown command.
        def try(*words)
          ask(*words)
        rescue Error => e
          raise unless %i[noperm server].include?(e.code)
        end

        # @return [String, nil] nil: the server does not report it
        def info(section, name)
          @info[section] ||= (try("INFO", section) || "").scan(/^([^#:\r\n]+):([^\r\n]*)/).to_h
          @info[section][name]
        end

        # @return [Integer, nil]
        def number(section, name)
          text = info(section, name)
          Integer(text, 10) if text&.match?(/\A\d+\z/)
        end

        # @return [String, nil]
        def setting(name) = try("CONFIG", "GET", name)&.last

        # Returns what the sentinels report about this server. Each sentinel is asked once.
        #
        # @return [Hash{String => Hash, Error}] for the address of each sentinel, its answer to
        #   SENTINEL MASTER, or the Error if it has not answered. Each Hash also has a "ckquorum":
        #   the answer to SENTINEL CKQUORUM, or the Error.
        def sentinels
          @sentinels ||= store.sentinels.each_with_index.to_h do |place, number|
            [place.join(":"), ask_sentinel(number)]
          end
        end

        # @return [Boolean] is the server on this host? If there are sentinels, are all of them, and
        #   all servers that they name, on this host?
        def local?
          return true if store.url.start_with?(UNIX)
          return LOCAL.match?(place ? place[0] : store.url[HOST, 1]) if store.sentinels.empty?

          named = sentinels.values.grep(Hash).map { |facts| facts["ip"] }
          named.any? && local_sentinels? && named.all?(LOCAL)
        end

        # @return [Boolean] are all sentinels of the URL on this host?
        def local_sentinels? = store.sentinels.all? { |host, _| LOCAL.match?(host) }

        private

        def ask_sentinel(number)
          conversation = store.converse(number)
          facts = conversation.ask(["SENTINEL", "MASTER", store.primary_name]).each_slice(2).to_h
          facts.merge("ckquorum" => ask_for_quorum(conversation))
        rescue Error => e
          e
        ensure
          conversation&.close
        end

        def ask_for_quorum(conversation)
          conversation.ask(["SENTINEL", "CKQUORUM", store.primary_name])
        rescue Error => e
          e
        end
      end
    end
  end
end
