# frozen_string_literal: true

require_relative "exceptions"

module Mongo
  module Locking
    # Follows an object's parents to its root.
    #
    # @api private
    module Path
      # After this number of steps, a path without a root counts as a cycle, even if each step
      # returns a new object.
      MOST = 10_000

      # The error names at most this many objects of the cycle.
      NAMED = 20
      private_constant :MOST, :NAMED

      class << self
        # Remembers one object at a time: the one after 1, 2, 4 … steps. If the path reaches that
        # object again, the path is a cycle. Unlike a list of all objects, this takes constant
        # memory.
        def root_of(from)
          lockable = passed = from
          type = from.class
          locker = locker_of(from)
          way = locker.parent
          steps = 0
          remembers_at = 1
          while way && (parent = ::Symbol === way ? lockable.__send__(way) : way.call(lockable))
            circular(from) if parent.eql?(passed) || steps == MOST
            steps += 1
            passed, remembers_at = parent, 2 * remembers_at if steps == remembers_at
            lockable = parent
            next if parent.class.equal?(type)

            type = parent.class
            locker = locker_of(parent)
            way = locker.parent
          end
          way ? not_lockable(lockable) : lockable
        end

        private

        def locker_of(lockable)
          type = lockable.class
          (type.locker if type.respond_to?(:locker)) || not_lockable(lockable)
        end

        def not_lockable(lockable)
          raise Exceptions::InvalidConfig, "root #{lockable.inspect} is not lockable"
        end

        # Follows the cycle once more to name its objects.
        def circular(from)
          seen = []
          lockable = from
          until seen.any? { |one| one.eql?(lockable) } || seen.size > NAMED
            seen << lockable
            lockable = locker_of(lockable).parent_for(lockable)
          end
          first = seen.index { |one| one.eql?(lockable) }
          names = [*seen.drop(first || 0), lockable].map { |one| describe(one) }
          raise Exceptions::CircularLock,
                "circular lock: #{names.join(" -> ")}#{" -> …" unless first}"
        end

        def describe(lockable)
          locker = lockable.class.locker
          key = if locker.is_root? then locker.key_for(lockable)
                elsif lockable.respond_to?(:id) then lockable.id
                end
          key ? "#{lockable.class}/#{key}" : lockable.class.to_s
        end
      end
    end
  end
end
