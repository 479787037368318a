# frozen_string_literal: true

module Mongo
  module Locking
    # How a document is taken over whose time is over: by giving it a short time, which is nobody's,
    # and by coming back a while later. It is taken then if nobody has touched it. A process of the
    # gem takes over in two steps, and the second one, which writes the time, it does not look at
    # who was there before: so it is waited for.
    #
    # @api private
    class Takeover
      # Seconds after which the second step has been done.
      SETTLED_S = 0.2

      # Seconds of the time between. Whoever takes over looks more often than that.
      NOBODYS_S = 1.0

      # How many documents may be on their way.
      MOST = 1024

      private_constant :SETTLED_S, :NOBODYS_S, :MOST

      def initialize(documents)
        @documents = documents
        @lock = ::Mutex.new
        @begun = {}
      end

      # One step.
      #
      # @param place [Hash] scope and key
      # @param document [Hash] what the document is to have
      # @return [Hash, nil] what it has, if it is ours now
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

      # Of a count above one somebody has left the rest.
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

      # Long enough ago, and is it still so?
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
