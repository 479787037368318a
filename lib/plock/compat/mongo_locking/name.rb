# frozen_string_literal: true

module Mongo
  module Locking
    # The name of a lock: its scope and its key. A name can be converted to a label or to a store
    # key. Both can be converted back, unless the name is too long.
    #
    # @api private
    class Name
      # The prefix of these locks' labels. It distinguishes these locks from others in the store.
      MARK = "mongo "
      LABEL = /\A#{MARK}([^\/]*)\/(.*)\z/m

      # Matches the store key of a document. The key contains the lock's name and a digest of it. In
      # other stores, a store key contains only a digest.
      DOCUMENT = /\A(.*)\0:\h{64}(#{::Regexp.union(::Plock::Locking::Kind::ALL.map(&:suffix))})\z/m

      # The characters that a label escapes.
      SPECIAL = %r{[/%]}

      MAX_BYTES = ::Plock::Locking::Arguments::KEY_MAX_BYTES
      private_constant :MARK, :LABEL, :DOCUMENT, :SPECIAL, :MAX_BYTES

      class << self
        # @return [Name, nil] the name, truncated if it is long; nil if the label belongs to
        #   another kind of lock
        def of_label(label)
          parts = LABEL.match(label || "")&.captures or return
          new(*parts.map { |text| text.gsub(/%(\h\h)/) { $1.hex.chr } })
        end

        # @param text [String] as {#store_key} writes it
        # @return [Name, nil] nil if {#store_key} did not write the text
        def of(text)
          length, rest = text.split(":", 2)
          return unless rest && length.match?(/\A\d+\z/) && rest.byteslice(length.to_i, 1) == "/"

          new(rest.byteslice(0, length.to_i), rest.byteslice((length.to_i + 1)..))
        end

        # @param store_key [String] a key of any store
        # @return [Name, nil] the document's name; nil if {StoreConfig} did not write the key
        def of_document(store_key)
          name, kind = DOCUMENT.match(store_key)&.captures
          return unless name

          named = of(name) || new("", name)
          kind.empty? ? named : new(named.scope, "#{named.key}\0#{kind}")
        end
      end

      attr_reader :scope, :key

      def initialize(scope, key)
        @scope = scope
        @key = key
      end

      # @return [String] a key that only this lock has
      def store_key
        name = "#{@scope.bytesize}:#{@scope}/#{@key}"
        name.bytesize > MAX_BYTES ? "0:/#{::Plock.digest(name)}" : name
      end

      def label
        scope, key = [@scope, @key].map do |part|
          part.gsub(SPECIAL) { |character| format("%%%02X", character.ord) }
        end
        ::Plock::Locking::Arguments.shortened_label("#{MARK}#{scope}/#{key}")
      end

      def to_s = "#{@scope}/#{@key}"
    end
  end
end
