# frozen_string_literal: true

module Mongo
  module Locking
    # Takes over an expired document in two steps. The first step gives the document a short new
    # expiry and no owner. The second step, a while later, takes the document if no process has
    # changed it since. A process using the gem also takes over in two steps, and its second step
    # writes `expire_at` without checking the owner. So this class delays its own second step until
    # the gem's second step must be over.
    #
    # @api private
    class Takeover
      # A process using the gem does its second step within this many seconds.
      SETTLED_S = 0.2

      # Seconds from the first step until the document expires again. A waiting caller polls more
      # often than this, so it does the second step in time.
      NOBODYS_S = 1.0

      # The most documents that this process remembers between the two steps.
      MOST = 1024

      private_constant :SETTLED_S, :NOBODYS_S, :MOST

      def initialize(documents)
        @documents = documents
        @lock = ::Mutex.new
        @begun = {}
      end

      # Does the second step if this process has done the first one. Otherwise, does the first step
      # if the document has expired.
      #
      # @param place [Hash] scope and key
      # @param document [Hash] the new fields of the document
      # @return [Hash, nil] the new fields if the document is ours now, else nil
      def step(place, document)
        found = @documents.find(place) or return
        expire_at, count = found.values_at("expire_at", "refcount")
        return unless expire_at && count.positive?

        unmoved = place.merge("expire_at" => expire_at, "refcount" => count)
        if begun?(place, expire_at, count) then finish(unmoved, found, document)
        elsif expire_at < ::Time.now then start(place, unmoved)
        end
      end

      private

      # Does the second step. Sets `refcount` to 1, because processes that died may have left a
      # greater count.
      def finish(unmoved, found, document)
        document = document.merge("fence" => [document["fence"], found["fence"].to_i + 1].max)
        document if @documents.change(unmoved, { "$set" => document })
      end

      def start(place, unmoved)
        nobodys = ::Time.now.utc + NOBODYS_S
        set = { "expire_at" => nobodys, "until" => nobodys, "owner" => "-" }
        begun =
          @documents.change(
            unmoved, { "$set" => set, "$unset" => { "holder" => "", "since" => "" } }
          ) or return
        @lock.synchronize do
          @begun.clear if @begun.size >= MOST
          @begun[place] = [*begun.values_at("expire_at", "refcount"), ::Plock::Clock.now]
        end
        nil
      end

      # Returns whether this process has done the first step, at least SETTLED_S ago, and the
      # document has not changed since the first step.
      def begun?(place, expire_at, count)
        @lock.synchronize do
          *state, since = @begun[place]
          state == [expire_at, count] && ::Plock::Clock.now - since >= SETTLED_S &&
            @begun.delete(place)
        end
      end
    end
  end
end
