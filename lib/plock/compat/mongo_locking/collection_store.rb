# frozen_string_literal: true

require "plock/store/in_ruby"
require "plock/store/memcached/asking"
require "plock/store/memcached/queue"
require_relative "documents"
require_relative "profile"

module Mongo
  module Locking
    # A store of plock's in the collection of the gem, one document to a lock: `scope`, `key`, `refcount` (how many have asked, of whom one
    # has it), `expire_at`. As a process of the gem sees it, one of plock's is another of its own.
    #
    # Besides, a document of ours has an `owner`, and only that is released, renewed and extended. It is made in one request, or it is
    # not: nobody counts up who is not let in. Where its time is over, it is taken over when it has been seen twice, a while apart, and
    # not moved: a process of the gem that takes it over changes it in two steps.
    #
    # Times are the clocks' of those who ask. Nobody knows who waits: each process serves its own in order, and looks at growing intervals,
    # up to four times a second, for the first of them only.
    class CollectionStore
      include ::Plock::Store::InRuby

      UNABLE = %i[order lasting_fences prompt_expiry semaphores read_write_locks downgrade busy_renewal].freeze

      # Seconds between the two looks.
      SETTLED_S = 0.2

      # How many documents may be under observation.
      MOST_SEEN = 1024

      # Seconds after which nothing arrives any more that was sent before.
      AFTERMATH_S = 1.0

      # What a document of ours has besides.
      OURS = %w[owner holder fence since].to_h { |field| [field, ""] }.freeze

      private_constant :SETTLED_S, :MOST_SEEN, :AFTERMATH_S, :OURS

      # @param collection [Mongo::Collection]
      # @param options [Hash{Symbol => Object}] `:ttl`, `:wait` and `:logger` as for Plock::Store.open
      # @raise [InvalidConfig] not a collection
      def initialize(collection, **options)
        raise InvalidConfig, "not a collection: #{collection.class}" unless Documents.usable?(collection)

        @profile = Profile.new(**options)
        @documents = Documents.new(collection)
        @keeper = ::Plock::Store::Keeper.new
        @queue = ::Plock::Store::Memcached::Queue.new
        @watched = {}
        @closed = false
        start_afresh
        ::Plock::Events::ActiveSupportBridge.attach
      end

      # @return [String]
      def url = "mongo:"

      # The collection stays the application's.
      #
      # @return [nil]
      def close
        @closed = true
        nil
      end

      # @api private
      # @return [Integer, nil] the fence; nil: somebody has it
      def add(grant, ttl)
        place = place_of(grant.key)
        document = ours_now(grant, ttl)
        indexed.change(place.merge("refcount" => { "$lt" => 1 }), { "$set" => document }, upsert: true) or
          document = take_over(grant.key, place, document) or return
        document["fence"]
      end

      # @api private
      # @return [Boolean] is it ours, and so for another span?
      def prolong(grant, span)
        change(grant, { "$set" => { "expire_at" => Time.now.utc + span } })
      end

      # @api private
      # @return [Boolean]
      def still?(grant)
        running?(@documents.find(mine(grant)))
      end

      # @api private
      # @return [Boolean] was it ours?
      def give_back(grant, keep, _deadline = nil)
        return keep_taken(grant, keep) if keep.positive?

        found = @documents.remove(mine(grant).merge("refcount" => 1)) || count_down(mine(grant))
        @queue.call_first(grant.key)
        running?(found)
      end

      # @api private
      # Takes back what may have been granted, now and once more, where the request may arrive after that.
      #
      # @return [void]
      def settle(grant)
        give_back(grant, 0.0)
      rescue ::Plock::UnavailableError
        nil # it ends with its time
      ensure
        @keeper.errand(AFTERMATH_S) do
          give_back(grant, 0.0)
          nil
        rescue ::Plock::UnavailableError
          nil
        end
      end

      # @api private
      def tend(grant)
        @watched[grant.token] = grant
        super
      end

      # @api private
      def forget(grant)
        @watched.delete(grant.token)
        super
      end

      private

      def start_afresh
        @pid = Process.pid
        @lock = Mutex.new
        @seen = {}
      end

      # Somebody in a parent may have it for ever.
      def enter(&block)
        start_afresh unless @pid == Process.pid
        @lock.synchronize(&block)
      end

      # Whoever comes first sees to it that there cannot be two documents of a lock.
      def indexed
        @documents.ensure_indexes unless @indexed
        @indexed = true
        @documents
      end

      def asking_for(grant, ttl)
        unsupported("a document has one holder: there are neither semaphores nor read-write locks") if grant.share

        ::Plock::Store::Memcached::Asking.new(self, @queue, grant, ttl)
      end

      def place_of(store_key)
        name = Name.of_document(store_key)
        { "scope" => name.scope, "key" => name.key }
      end

      def mine(grant)
        place_of(grant.key).merge("owner" => grant.token)
      end

      def change(grant, changes)
        !@documents.change(mine(grant), changes).nil?
      end

      def ours_now(grant, ttl)
        now = Time.now.utc
        { "refcount" => 1, "expire_at" => now + ttl, "owner" => grant.token, "holder" => ::Plock::Record.write(nil, grant.label, "-"),
          "fence" => (now.to_r * 1_000_000).to_i, "since" => now }
      end

      # Of a count above one somebody has left the rest: it goes down by one at each look.
      #
      # @return [Hash, nil] what the document says of us now
      def take_over(key, place, document)
        found = @documents.find(place)
        expire_at = found && found["expire_at"]
        return unless expire_at && expire_at < Time.now && found["refcount"].positive? && settled?(key, found)

        still_so = place.merge("expire_at" => expire_at)
        if found["refcount"] > 1
          @documents.change(still_so.merge("refcount" => { "$gt" => 1 }), { "$inc" => { "refcount" => -1 } })
          return
        end
        document = document.merge("fence" => [document["fence"], found["fence"].to_i + 1].max)
        document if @documents.change(still_so.merge("refcount" => 1), { "$set" => document })
      end

      # Has it been so for a while?
      def settled?(key, found)
        state = found.values_at("expire_at", "refcount")
        now = ::Plock::Clock.now
        enter do
          before, since = @seen[key]
          next now - since >= SETTLED_S if before == state

          @seen.clear if @seen.size >= MOST_SEEN
          @seen[key] = [state, now]
          false
        end
      end

      # Nobody's, until its time is over.
      def keep_taken(grant, keep)
        change(grant, { "$set" => { "expire_at" => Time.now.utc + keep, "owner" => "-" } })
      end

      # Others have counted up meanwhile, and will count down.
      #
      # @return [Hash, nil] nil: there was no such document
      def count_down(filter, **changes)
        left = @documents.change(filter, { "$inc" => { "refcount" => -1 }, "$unset" => OURS, **changes }) or return
        @documents.remove(left.slice("scope", "key").merge("refcount" => { "$lt" => 1 })) if left["refcount"] < 1
        left
      end

      # Who releases what was over by then has lost it.
      def running?(found)
        !found.nil? && found["expire_at"] > Time.now
      end

      # One after the other: there is nothing that takes several at once.
      def take_all(*)
        nil
      end

      def adopt_hold(dump, renew, max_hold, watch, span = nil)
        key, token, fence, ttl, share = ::Plock::Store::GrantHold.read(dump, kind)
        raise ArgumentError, "not the dump of a lease" if fence.nil? || share

        grant = ::Plock::Store::Grant.new(self, key, token, renew: renew, max_hold: max_hold, watch: watch)
        asked_at = ::Plock::Clock.now
        found = change_holder(grant, span) or return
        left = span || (found["expire_at"] - Time.now).clamp(0.0, ttl)
        hold_of(grant.given(fence, asked_at, span || ttl, left), 0.0, false)
      end

      def change_holder(grant, span)
        label = @documents.find(mine(grant))&.then { |found| ::Plock::Record.parse(found["holder"].to_s)&.at(3) }
        changed = { "holder" => ::Plock::Record.write(nil, label, "-"), "expire_at" => span && (Time.now.utc + span) }.compact
        @documents.change(mine(grant).merge("expire_at" => { "$gt" => Time.now.utc }), { "$set" => changed })
      end

      def examine(key, _shared, _budget = nil)
        holder = holder(@documents.find(place_of(key)))
        waiters = @queue.waiters(key)
        [[holder].compact, waiters] if holder || waiters.any?
      end

      # Nil: it is nobody's any more.
      def holder(found)
        return unless found && found["refcount"].positive?

        left = found["expire_at"] && (found["expire_at"] - Time.now)
        return if left&.negative?

        who = ::Plock::Record.parse(found["holder"].to_s)&.first(4) || [nil] * 4
        [left, found["fence"], found["since"]&.to_f, *who, nil]
      end

      def each_key(_prefix)
        once = ::Plock::Locking::Kind::ONCE
        @documents.all.each do |found|
          key = found["key"].delete_suffix("\0#{once.suffix}")
          name = found["scope"].empty? ? key : Name.new(found["scope"], key).store_key
          yield profile.store_key(name, key == found["key"] ? ::Plock::Locking::Kind::LOCK : once)
        end
      end

      # Where others have counted up, the rest is left to be taken over. Whoever has come since keeps it.
      def break_hold(key, _shared)
        found = @documents.find(place_of(key))
        return false unless holder(found)

        same = found.slice("scope", "key", found.key?("owner") ? "owner" : "expire_at").merge("refcount" => { "$gt" => 0 })
        broken = count_down(same, "$set" => { "expire_at" => Time.at(0).utc })
        @watched[found["owner"]]&.lose if broken
        @queue.call_first(key)
        !broken.nil?
      end
    end
  end
end
