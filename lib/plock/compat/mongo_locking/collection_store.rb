# frozen_string_literal: true

require "plock/store/support/looking"
require_relative "documents"
require_relative "store_config"
require_relative "takeover"
require_relative "tenancy"

module Mongo
  module Locking
    # A store of plock in a collection that the gem can also use. Each lock is a document with
    # `scope`, `key`, `refcount` and `expire_at`. `refcount` counts the holder, and the processes
    # using the gem that are trying to take the lock. It does not count a process using plock that
    # is only trying. To processes using the gem, a holder that uses plock looks like one of them.
    #
    # A document that this class has written also has an `owner`, and a copy of `expire_at` in
    # `until`. This class releases, renews and extends a document only if the document still has
    # the `owner` and `expire_at` that this class wrote.
    #
    # All times are read from the callers' clocks.
    class CollectionStore
      include ::Plock::Store::Looking

      # The abilities that this store lacks; see Plock::Locking::ABILITIES.
      UNABLE = %i[order lasting_fences prompt_expiry semaphores read_write_locks downgrade
                  busy_renewal compares_secrets background_release replicas].freeze

      # @api private
      ONE_HOLDER = "a document has one holder"

      # The fields that plock adds to the gem's documents.
      OURS = %w[owner until holder fence since].to_h { |field| [field, ""] }.freeze

      # Number of tries to break a lock that its holder renews at the same time.
      LOOKS = 8

      private_constant :OURS, :LOOKS

      # @param collection [Mongo::Collection]
      # @param attempt_timeout [Numeric] seconds, 0.001 to 3600, that one request may take, even if
      #   the driver would wait longer
      # @param options [Hash{Symbol => Object}] `:ttl`, `:wait` and `:logger` as for
      #   Plock::Store.open
      # @raise [InvalidConfig] `collection` is not a collection
      # @raise [Plock::ConfigurationError] another argument is invalid
      def initialize(collection, attempt_timeout: 1.0, **options)
        unless Documents.usable?(collection)
          raise InvalidConfig, "not a collection: #{collection.class}"
        end

        set_up(StoreConfig.new(**options), attempt_timeout)
        @documents = Documents.new(collection, @attempt_timeout)
        @takeover = Takeover.new(@documents)
      end

      # @return [String]
      def url = "mongo:"

      # @!visibility private
      # {AcquireRequest}, {LeaseState} and {Renewal} call the following methods.

      # @return [Integer, nil] the fence; nil if another caller holds the lock
      def add(lease, ttl, _deadline)
        place = place_of(lease.key)
        document = ours_now(lease, ttl)
        document = lease.writing(document["expire_at"]) do
          indexed.change(
            place.merge("refcount" => { "$lt" => 1 }), { "$set" => document }, upsert: true
          ) || @takeover.step(place, document)
        end
        document && document["fence"]
      end

      def prolong(lease, span) = !change(lease, ::Time.now.utc + span).nil?

      def still?(lease) = running?(@documents.find(mine(lease)))

      def give_back(lease, keep, _deadline = nil)
        # "-" stands for no owner, so the lock stays taken until the document expires
        return !change(lease, ::Time.now.utc + keep, "owner" => "-").nil? if keep.positive?

        found = take_down(mine(lease))
        @lines.call_first(lease.key)
        running?(found)
      end

      def ensure_indices
        @documents.ensure_indexes
        @indexed = true
      end

      private

      # Does nothing, because the connection belongs to the application.
      def disconnect = nil

      # The first request creates the unique index, so that a lock cannot have two documents.
      def indexed
        ensure_indices unless @indexed
        @documents
      end

      def lease_for(key, **options) = Tenancy.new(self, key, ::Plock.token, **options)

      def place_of(store_key)
        name = Name.of_document(store_key)
        { "scope" => name.scope, "key" => name.key }
      end

      def mine(lease)
        place_of(lease.key).merge("owner" => lease.token, "expire_at" => { "$in" => lease.written })
      end

      # @return [Hash, nil] the changed document; nil if it is not ours any more
      def change(lease, expire_at, **others)
        lease.writing(expire_at) do
          @documents.change(
            mine(lease), { "$set" => { "expire_at" => expire_at, "until" => expire_at, **others } }
          )
        end
      end

      def ours_now(lease, ttl)
        now = ::Time.now.utc
        {
          "refcount" => 1, "expire_at" => now + ttl, "until" => now + ttl, "owner" => lease.token,
          "holder" => ::Plock::Record.write(nil, lease.label, "-"),
          "fence" => (now.to_r * 1_000_000).to_i, "since" => now
        }
      end

      # @return [Hash, nil] the document; nil if none matched
      def take_down(filter) = @documents.remove(filter.merge("refcount" => 1)) || count_down(filter)

      def undo(lease, _within)
        found = @documents.find(place_of(lease.key).merge("owner" => lease.token))
        take_down(unmoved(found)) if found && ours?(found)
        true
      rescue ::Plock::UnavailableError
        false
      end

      # Gives up a document whose count other processes may have incremented. Decrements the count
      # only once, because each of those processes decrements it itself. If the count is then 0,
      # also removes the document.
      #
      # @return [Hash, nil] the changed document; nil if none matched
      def count_down(filter, **changes)
        left =
          @documents.change(
            filter, { "$inc" => { "refcount" => -1 }, "$unset" => OURS, **changes }
          ) or return
        if left["refcount"] < 1
          @documents.remove(left.slice("scope", "key").merge("refcount" => { "$lt" => 1 }))
        end
        left
      end

      # @return [Hash] a filter that matches the document only if its owner and expiry are still
      #   those that were found
      def unmoved(found)
        {
          **found.slice("scope", "key"), "owner" => found["owner"],
          "expire_at" => found["expire_at"]
        }
      end

      # Did a process using plock write the document last? A process using the gem that takes over a
      # document changes `expire_at` but not `until`, so the two differ.
      def ours?(found) = found.key?("owner") && found["until"] == found["expire_at"]

      # A lock that expired before its release counts as lost.
      def running?(found) = !found.nil? && found["expire_at"] > ::Time.now

      # Adopts the lock: moves what `token` holds to the lease. Returns nil if the document has
      # expired, if a process using the gem has taken it over, or if it changes in the meantime.
      def take_over(lease, token, span, granted)
        left = place_of(lease.key).merge("owner" => token)
        found = @documents.find(left)
        return unless running?(found) && ours?(found)

        expire_at = span ? ::Time.now.utc + span : found["expire_at"]
        label = ::Plock::Record.who(found["holder"])[:label]
        fence = [found["fence"].to_i + 1, (::Time.now.to_r * 1_000_000).to_i].max
        adopted = lease.writing(expire_at) do
          @documents.change(
            left.merge("expire_at" => found["expire_at"]),
            {
              "$set" => {
                "expire_at" => expire_at, "until" => expire_at, "owner" => lease.token,
                "fence" => fence, "holder" => ::Plock::Record.write(nil, label, "-")
              }
            }
          )
        end
        [fence, span || (expire_at - ::Time.now).clamp(0.0, granted)] if adopted
      end

      def holders(key, _deadline) = [holder(@documents.find(place_of(key)))].compact

      # @return [Status::Holder, nil] nil if the lock is free
      def holder(found)
        return unless found && found["refcount"].positive?

        left = found["expire_at"] && (found["expire_at"] - ::Time.now)
        return if left&.negative?

        return ::Plock::Status.holder(remaining: left) unless ours?(found)

        ::Plock::Status.holder(remaining: left, fence: found["fence"], since: found["since"]&.to_f,
                               **::Plock::Record.who(found["holder"]))
      end

      def keys_after(_prefix, _cursor)
        once = ::Plock::Locking::Kind::ONCE
        keys = @documents.all.map do |found|
          key = found["key"].delete_suffix("\0#{once.suffix}")
          name = found["scope"].empty? ? key : Name.new(found["scope"], key).store_key
          config.store_key(name, key == found["key"] ? ::Plock::Locking::Kind::LOCK : once)
        end
        [keys, nil]
      end

      # Breaks the lock. If other processes have incremented the count, the document remains and can
      # be taken over. If the lock has a new holder, that holder keeps the lock. If the same holder
      # has only renewed the lock, the loop tries again.
      def break_hold(key, _shared, only)
        owner = nil
        LOOKS.times do
          found = @documents.find(place_of(key))
          return false unless only.nil? || only.map(&:fence).include?(holder(found)&.fence)

          unless holder(found) && (owner.nil? || (ours?(found) && found["owner"] == owner))
            return false
          end
          return true if break_one(key, found)

          owner = found["owner"] or return false
        end
        false
      end

      # @return [Boolean] false if the document had changed in the meantime
      def break_one(key, found)
        count_down(
          unmoved(found).merge("refcount" => { "$gt" => 0 }),
          "$set" => { "expire_at" => ::Time.at(0).utc }
        ) or return false
        @watched[found["owner"]]&.lose
        @lines.call_first(key)
        true
      end
    end
  end
end
