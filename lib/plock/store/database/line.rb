# frozen_string_literal: true

module Plock
  class Store
    class Database
      # One key as it was found under its lock: who is inside, who waits, and whose places are over. It decides who is admitted: nobody
      # past one who waits before him.
      #
      # @api private
      class Line
        # @return [Array<Tables::Claim>] in order
        attr_reader :inside, :waiting, :gone

        # @param head [Tables::Head]
        # @param claims [Array<Tables::Claim>]
        def initialize(head, claims)
          @head = head
          @gone, here = claims.partition { |claim| claim.expires_at <= head.now }
          @waiting, @inside = here.partition(&:waits?)
        end

        # @param token [String]
        # @return [Tables::Claim, nil] its place
        def place(token) = @waiting.find { |claim| claim.token == token }

        # @param place [Tables::Claim, nil] nil: it has none yet
        # @return [Integer] how many wait before it
        def before(place) = place ? @waiting.index(place) : @waiting.size

        # @param mode [String, nil] nil: it wants the key for itself
        # @param limit [Integer, nil]
        # @return [Boolean]
        def room?(mode, limit)
          return false if @head.held?
          return true if @inside.empty?

          !mode.nil? && @inside.first.mode == mode && (limit.nil? || @inside.size < limit)
        end

        # @return [Tables::Claim, nil] the first of those who wait, if there is room for it
        def next_inside
          claim = @waiting.first
          claim if claim && room?(claim.mode, claim.limit)
        end

        # @return [Boolean]
        def held? = @head.held? || @inside.any?

        # @return [Boolean] does nobody have it, and nobody wait?
        def idle? = !held? && @waiting.empty?

        # @return [Integer] until one of those inside is over
        def left
          ends = @inside.map(&:expires_at)
          ends << @head.expires_at if @head.held?
          (ends.min || @head.now) - @head.now
        end

        # As it is after somebody has left, or has come.
        #
        # @return [Line]
        def after(remove: [], add: [])
          dup.change(remove, add)
        end

        protected

        def change(remove, add)
          @waiting -= remove
          @inside = @inside - remove + add
          self
        end
      end
    end
  end
end
