# frozen_string_literal: true

require "plock"

module Plock
  module CLI
    module Doctor
      # A store's server, and what it reports about itself. It is asked over a connection like
      # those of locks: the same address, credentials, TLS and time limits.
      class Server
        # @return [Store]
        attr_reader :store

        # @param store [Store]
        def initialize(store)
          @store = store
          @conversation = store.converse
          @info = {}
        end

        # @return [Object] the answer: nil, Integer, String or Array
        # @raise [Error]
        def ask(*words)
          @conversation.ask(words)
        end

        # As {#ask}, but returns nil if the user may not run the command, or the server does not
        # know it.
        #
        # @return [Object, nil]
        # @raise [Error]
        def try(*words)
          ask(*words)
        rescue Error => e
          raise unless %i[noperm server].include?(e.code)
        end

        # @param section [String]
        # @param name [String]
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

        # @param name [String]
        # @return [String, nil]
        def setting(name)
          try("CONFIG", "GET", name)&.last
        end

        # @return [Boolean] does its address lead to this very host?
        def local?
          store.url.match?(%r{\A(unix:|rediss?://(127\.|localhost\b|\[::1\]))})
        end
      end
    end
  end
end
