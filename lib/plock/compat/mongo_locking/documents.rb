# frozen_string_literal: true

require "plock/store/support/aside"

module Mongo
  module Locking
    # The requests to a collection, for both generations of the `mongo` gem. They raise plock's
    # errors instead of the driver's.
    #
    # @api private
    class Documents
      # MongoDB's error codes for a duplicate key in a unique index.
      DUPLICATE_CODES = [11_000, 11_001].freeze

      UNIQUE = { "scope" => 1, "key" => 1 }.freeze
      OTHERS = [{ "refcount" => 1 }, { "expire_at" => 1 }].freeze

      # Matches the errors that a driver raises or passes on. It compares class names, so no
      # driver needs to be loaded.
      module DriverFailure
        NAMES = /\A(Mongo|BSON)::(?!Locking::)/

        def self.===(error)
          case error
          when ::SystemCallError, ::IOError
            true
          when ::StandardError
            error.class.ancestors.any? { |ancestor| NAMES.match?(ancestor.name.to_s) }
          else
            false
          end
        end
      end

      private_constant :DUPLICATE_CODES, :UNIQUE, :OTHERS, :DriverFailure

      def self.usable?(collection)
        collection.respond_to?(:find) &&
          (collection.respond_to?(:find_and_modify) || collection.respond_to?(:find_one_and_update))
      end

      # @return [Object] the collection that receives the requests
      attr_reader :collection

      # @param timeout [Float] seconds that one request may take
      def initialize(collection, timeout)
        @first_generation = collection.respond_to?(:find_and_modify)
        @collection = answering(collection)
        @timeout = timeout
      end

      # Creates the missing indexes.
      def ensure_indexes
        ask { index(UNIQUE, unique: true) }
        OTHERS.each { |keys| ask { index(keys) } }
      end

      # @param upsert [Boolean] whether to create the document if it is missing
      # @return [Hash, nil] the changed document; nil if none matches
      def change(filter, changes, upsert: false)
        ask(upsert) do
          next modify(filter, update: changes, new: true, upsert: upsert) if @first_generation

          @collection.find_one_and_update(filter, changes, upsert: upsert, return_document: :after)
        end
      end

      # @return [Hash, nil] the removed document; nil if none matched
      def remove(filter)
        ask do
          @first_generation ? modify(filter, remove: true) : @collection.find_one_and_delete(filter)
        end
      end

      def find(filter)
        ask { @collection.find(filter).first }
      end

      def all
        ask { @collection.find({}).to_a }
      end

      private

      # Makes the collection read from the primary and acknowledge each write, whatever the
      # application's client is set to. A secondary may not have the document yet, and an
      # unacknowledged write does not show whether the lock is ours.
      def answering(collection)
        return collection if @first_generation || !collection.respond_to?(:with)

        answered = collection.write_concern.nil? || collection.write_concern.acknowledged?
        collection.with(read: { mode: :primary }, **(answered ? {} : { write: { w: 1 } }))
      end

      def index(keys, unique: false)
        unless @first_generation
          return @collection.indexes.create_one(keys, unique: unique, background: true)
        end

        @collection.ensure_index(keys.to_a, unique: unique, background: true)
      end

      # Adds `$atomic` to the query, as the gem does. It is an operator of old servers.
      def modify(filter, **options)
        @collection.find_and_modify(query: filter.merge("$atomic" => 1), **options)
      rescue DriverFailure => e
        raise unless e.message.include?("No matching object found")
      end

      # Calls the driver on another thread, because the driver may wait without limit. This has two
      # more advantages: the driver does not use its caches for the calling thread, and an interrupt
      # of the caller does not look like a failure of the driver.
      def ask(upsert = false, &block)
        answer = ::Plock::Store::Aside.run(@timeout) { attempt(upsert, &block) }
        unless answer
          message = "the collection has not answered within #{@timeout} s"
          raise ::Plock::UnavailableError.new(message, code: :timed_out)
        end

        answer.first
      end

      # @return [Object, nil] the block's value; nil if another process has just created the
      #   document
      def attempt(upsert)
        yield
      rescue DriverFailure => e
        return if upsert && duplicate?(e)

        raise ::Plock::UnavailableError.new("#{e.class.name}: #{e.message}", code: :io)
      end

      def duplicate?(error)
        name = %i[code error_code].find { |method| error.respond_to?(method) }
        code = error.public_send(name) if name
        DUPLICATE_CODES.include?(code) || error.message.match?(/\bE1100[01]\b/)
      end
    end
  end
end
