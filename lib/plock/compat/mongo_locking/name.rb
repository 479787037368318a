# frozen_string_literal: true

module Mongo
  module Locking
    # What a lock is called: scope and key, for people, and for a store.
    #
    # @api private
    class Name
      # In a store, where other locks have labels, too.
      MARK = "mongo "
      LABEL = /\A#{MARK}([^\/]*)\/(.*)\z/m

      # What a document is called in its store: by its name, where other stores have only a digest
      # of that, and the digest.
      DOCUMENT = /\A(.*)\0:\h{64}(#{::Regexp.union(::Plock::Locking::Kind::ALL.map(&:suffix))})\z/m

      # What a label does not show as it is.
      SPECIAL = %r{[/%]}

      MAX_BYTES = ::Plock::Locking::Arguments::KEY_MAX_BYTES
      private_constant :MARK, :LABEL, :DOCUMENT, :SPECIAL, :MAX_BYTES

      class << self
        # @return [Name, nil] a long one may be cut off. nil: not the label of one
        def of_label(label)
          parts = LABEL.match(label || "")&.captures or return
          new(*parts.map { |text| text.gsub(/%(\h\h)/) { $1.hex.chr } })
        end

        # @param text [String] as {#store_key} writes it
        # @return [Name, nil] nil: it did not
        def of(text)
          length, rest = text.split(":", 2)
          return unless rest && length.match?(/\A\d+\z/) && rest.byteslice(length.to_i, 1) == "/"

          new(rest.byteslice(0, length.to_i), rest.byteslice((length.to_i + 1)..))
        end

        # @param store_key [String] of any store
        # @return [Name, nil] of the document, as {StoreConfig} wrote it; nil: it is none
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

      # @return [String] different for different locks
      def store_key
        name = "#{@scope.bytesize}:#{@scope}/#{@key}"
        name.bytesize > MAX_BYTES ? "0:/#{::Plock.digest(name)}" : name
      end

      def label
        text =
          [@scope, @key].map do |part|
            part.gsub(SPECIAL) { |character| format("%%%02X", character.ord) }
          end
            .join("/")
        ::Plock::Locking::Arguments.shortened_label("#{MARK}#{text}")
      end

      def to_s
        "#{@scope}/#{@key}"
      end
    end
  end
end
