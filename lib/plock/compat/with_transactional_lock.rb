# frozen_string_literal: true

require "plock"
require_relative "stand_in"

Plock::Compat::StandIn.claim("with_transactional_lock", "WithTransactionalLock")

require "active_record"
require_relative "with_transactional_lock/request"
require_relative "with_transactional_lock/postgresql"
require_relative "with_transactional_lock/mysql"
require_relative "with_transactional_lock/my_sql_helper"

# The API of the gem `with_transactional_lock`: database locks that end with the transaction, on
# the connection of an Active Record class. Require `plock/compat/with_transactional_lock` instead
# of that gem. Every model then has {Mixin::ClassMethods#with_transactional_lock}.
#
# The locks' numbers, and the rows in MySQL, are the same as the gem's. So processes using plock
# and processes using the gem exclude one another.
#
# @example
#   require "plock/compat/with_transactional_lock"
#   Account.with_transactional_lock("account:7") do
#     account.update!(balance: account.reload.balance - 10)
#   end
module WithTransactionalLock
  # The methods of every model.
  module Mixin
    # @api private
    def self.included(base) = base.extend(ClassMethods)

    # Like {ClassMethods#with_transactional_lock}, on the connection of the record's class.
    #
    # @param (see ClassMethods#with_transactional_lock)
    # @return (see ClassMethods#with_transactional_lock)
    # @raise (see ClassMethods#with_transactional_lock)
    def with_transactional_lock(name, **options, &block)
      self.class.with_transactional_lock(name, **options, &block)
    end

    # The methods of every model class.
    module ClassMethods
      # Runs the block in a transaction that holds the lock of this name. The database releases the
      # lock when that transaction ends. If a transaction is already open, the method joins it, and
      # the lock lasts until the outermost transaction ends. The holder may acquire the lock again.
      #
      # Waiters sleep in the database, which serves them in its own order and applies its own
      # timeouts. If the lock is not acquired, a transaction that was already open remains usable.
      #
      # @param name [String] of any length and content
      # @param timeout [Numeric, nil] seconds to wait, 0 to 31_622_400; nil if only the database's
      #   own timeouts apply. PostgreSQL waits 24 days at most. MySQL, unlike MariaDB, rounds up
      #   to whole seconds and waits at least one second.
      # @param shared [Boolean] whether to share the lock with other callers that pass true; only
      #   on PostgreSQL
      # @return [Object, nil] the block's value; nil if it raised ActiveRecord::Rollback
      # @raise [TypeError] the name is not a String
      # @raise [ArgumentError] no block, or an invalid argument
      # @raise [Plock::TimeoutError] another caller held the lock for `timeout` seconds. The block
      #   has not run.
      # @raise [Plock::UnsupportedError] the database is not supported, or `shared: true` on MySQL
      #   or MariaDB
      # @raise [ActiveRecord::ActiveRecordError] the database failed
      #
      # @example
      #   Account.with_transactional_lock("import", timeout: 5) { import }
      def with_transactional_lock(name, timeout: nil, shared: false)
        raise ArgumentError, "with_transactional_lock needs a block" unless block_given?

        request = Request.of(name, timeout, shared)
        with_connection do |connection|
          kind = WithTransactionalLock.kind_of(connection)
          prepared = kind.prepare(self, connection, request)
          connection.transaction do
            kind.lock(connection, request, prepared)
            yield
          end
        end
      end
    end
  end

  # @api private
  # @return [#prepare, #lock]
  def self.kind_of(connection)
    case connection.adapter_name
    when "PostgreSQL", "PostGIS" then Postgresql
    when "Mysql2", "Trilogy" then Mysql
    else
      raise Plock::UnsupportedError, "with_transactional_lock needs PostgreSQL, MySQL or " \
                                     "MariaDB (the adapter is #{connection.adapter_name})"
    end
  end
end

ActiveSupport.on_load(:active_record) { include WithTransactionalLock::Mixin }

Plock::Compat::StandIn.open("with_transactional_lock")
