# frozen_string_literal: true

require_relative "../locking/kind"
require_relative "../locking/store_config"

module Plock
  class Survey
    # The parts of a store key.
    class Key
      FORM = /\Aplock:v1:(?:(?<namespace>[A-Za-z0-9_.-]{1,32}):)?(?<digest>\h{64}|\{\h{8}\}\h{56})
               (?:#{Regexp.union(Locking::Kind::ALL.map(&:suffix))})\z/x
      SHOWN = 12 # digits of the digest, enough to tell keys apart
      private_constant :FORM, :SHOWN

      # @return [Key, nil] nil: no lock of the Ruby API has such a key
      def self.parse(store_key)
        match = FORM.match(store_key) or return
        new(match[:namespace], match[:digest].delete("{}")) # without the braces of a hash tag
      end

      # @return [Array<String>] the texts in which a search looks for its words. In a Redis Cluster,
      #   the digest contains the braces of a hash tag. People see digests without them, so the
      #   second text has no braces
      def self.forms(store_key) = [store_key, store_key.delete("{}")].uniq

      # @return [String, nil] nil: the namespace without a name
      attr_reader :namespace

      def initialize(namespace, digest)
        @namespace = namespace
        @digest = digest
      end

      # @return [String] the beginning of the digest, for display
      def short = @digest[0, SHOWN]
    end
  end
end
