# frozen_string_literal: true

require "plock"
require_relative "stand_in"

Plock::Compat::StandIn.claim("with_transactional_lock", "WithTransactionalLock")

require "active_record"
require_relative "with_transactional_lock/request"
require_relative "with_transactional_lock/postgresql"
require_relative "with_transactional_lock/mysql"
require_relative "with_transactional_lock/my_sql_helper"

# Locks of the database that end with the transaction, on the connection of an Active Record class.
# What is required is `plock/compat/with_transactional_lock`; after that every model has
# {Mixin::ClassMethods#with_transactional_lock}.
#
# The numbers of the locks and the rows in MySQL are those of the gem of this name, so that
# processes that run either exclude one another.
#
# @example
#   require "plock/compat/with_transactional_lock"
#   Account.with_transactional_lock("account:7") { account.update!(balance: account.reload.balance - 10) }
module WithTransactionalLock
  # What every model gets.
  module Mixin
    # @api private
    def self.included(base)
      base.extend(ClassMethods)
    end

    # As {ClassMethods#with_transactional_lock}, on the connection of the record's class.
    #
    # @param (see ClassMethods#with_transactional_lock)
    # @return (see ClassMethods#with_transactional_lock)
    # @raise (see ClassMethods#with_transactional_lock)
    def with_transactional_lock(name, **options, &block)
      self.class.with_transactional_lock(name, **options, &block)
    end

    # What is called on the class.
    module ClassMethods
      # Runs the block in a transaction that holds the lock of this name. The lock is given back
      # when that transaction ends; where one is open already it is joined, and the lock lasts as
      # long as the outermost one. Who has it may ask again.
      #
      # Waiting is done by the database, in its order, and as long as its own timeouts let it. Where
      # the lock could not be had, a transaction that was open before can still be used.
      #
      # @param name [String] of any length and content
      # @param timeout [Numeric, nil] seconds of patience, 0 to 31_622_400; nil: none but the
      #   database's. PostgreSQL has at most 24 days; MySQL, other than MariaDB, has whole seconds,
      #   and at least one.
      # @param shared [Boolean] together with others who ask so, on PostgreSQL
      # @return [Object, nil] the block's value; nil where it raised ActiveRecord::Rollback
      # @raise [TypeError] the name is not a String
      # @raise [ArgumentError] there is no block, or another argument that cannot be right
      # @raise [Plock::TimeoutError] somebody else held it until patience ended. The block has not
      #   run.
      # @raise [Plock::UnsupportedError] another database, or `shared:` where there is no such lock
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
