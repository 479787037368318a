# frozen_string_literal: true

require "spec_helper"

# Tests the current driver itself, in a process of its own. The driver must have all methods that
# the locks call. The locks must understand its errors, and its requests must arrive.
RSpec.describe "Mongo::Locking with the mongo gem" do
  def with_driver(program)
    output, status = ruby(<<~RUBY)
      require "mongo"
      require "#{__dir__}/wire"
      require "plock/compat/mongo_locking"

      Mongo::Logger.logger = Logger.new(IO::NULL)
      CLIENT = Mongo::Client.new(["127.0.0.1:1"], database: "x", connect: :direct,
                                 server_selection_timeout: 0.01, monitoring_io: false)

      class Order < Struct.new(:id)
        include Mongo::Locking
        lockable!
      end
      #{program}
    RUBY
    expect(status).to be_success, output
    output.lines(chomp: true)
  end

  it "makes calls that it knows, and has its failures as plock's" do
    said = with_driver(<<~RUBY)
      Mongo::Locking::CollectionStore.new(CLIENT[:locks])
      documents = Mongo::Locking::Documents.new(CLIENT[:locks], 5.0)
      place = { "scope" => "Order", "key" => "1" }
      calls = [[:ensure_indexes],
               [:change, place, { "$set" => { "expire_at" => Time.now.utc } }],
               [:remove, place], [:find, place], [:all]]
      calls.each do |name, *arguments|
        documents.public_send(name, *arguments)
      rescue Plock::UnavailableError => e
        puts "\#{name}: \#{e.message[/\\A\\S+/]}"
      end
    RUBY
    expect(said).to eq(
      %w[ensure_indexes change remove find all].map do |name|
        "#{name}: Mongo::Error::NoServerAvailable:"
      end
    )
  end

  it "says that a lock cannot be had where there is no server" do
    said = with_driver(<<~RUBY)
      Mongo::Locking.configure(collection: proc { CLIENT[:locks] })
      begin
        Order.new(1).lock(max_retries: 1) { raise "entered" }
      rescue Mongo::Locking::LockFailure => e
        puts e.message, e.cause.class
      end
    RUBY
    expect(said).to eq ["unable to acquire lock Order/1", "Plock::UnavailableError"]
  end

  it "asks the primary, and for an answer, whatever the application's client does" do
    said = with_driver(<<~RUBY)
      wire = StandIn::Wire.new(StandIn::Server.new)
      client = Mongo::Client.new([wire.address], database: "x", connect: :direct,
                                 server_selection_timeout: 5, write: { w: 0 },
                                 read: { mode: :secondary_preferred })
      Mongo::Locking.configure(collection: client[:locks], max_retries: 1)
      p Order.new(7).lock { :entered }
      used = Mongo::Locking::Documents.new(client[:locks], 1.0).collection
      p used.read_preference[:mode], used.write_concern.acknowledged?
      puts wire.concerns.inspect
      strict = Mongo::Locking::Documents.new(client[:locks].with(write: { w: 3 }), 1.0).collection
      p strict.write_concern.options[:w]
    RUBY
    expect(said).to eq [":entered", ":primary", "true", '[{"w"=>1}, {"w"=>1}]', "3"]
  end

  it "locks, through its connections and its encoding" do
    said = with_driver(<<~RUBY)
      server = StandIn::Server.new
      wire = StandIn::Wire.new(server)
      client = Mongo::Client.new([wire.address], database: "x", connect: :direct,
                                 server_selection_timeout: 5)
      Mongo::Locking.configure(collection: client[:locks], max_retries: 1)
      order = Order.new(7)

      order.lock do
        p server.all.first.values_at("scope", "key", "refcount"),
          server.all.first["expire_at"].between?(Time.now + 590, Time.now + 600)
        p Mongo::Locking.locks.map { |held|
          [held.scope, held.key, held.owner[/pid \\d+/] == "pid \#{Process.pid}"]
        }
        begin
          Thread.new {
            Thread.current.report_on_exception = false
            order.lock { raise "entered" }
          }.value
        rescue Mongo::Locking::LockTimeout => e
          puts e.message
        end
      end
      p server.all

      wire.commands.clear
      order.lock { nil }
      puts wire.commands.join(" ")

      waiter = nil
      order.lock do
        waiter = Thread.new { order.lock(max_retries: 9) { :mine } }
        sleep 0.001 until Mongo::Locking.store.status("5:Order/7").waiters.any?
      end
      p waiter.value

      Mongo::QueryCache.cache do
        looks = [Mongo::Locking.locks.size]
        server.change({ "scope" => "Order", "key" => "8" },
                      { "$set" => { "refcount" => 1, "expire_at" => Time.now + 60 } }, true)
        p looks << Mongo::Locking.locks.size
        server.remove("key" => "8")
      end

      server.change({ "scope" => "Order", "key" => "7" },
                    { "$set" => { "refcount" => 1, "expire_at" => Time.now - 60 } }, true)
      p order.lock(max_retries: 5) { :taken_over }, server.all
      server.change({ "scope" => "Order", "key" => "7" },
                    { "$set" => { "refcount" => 2, "expire_at" => Time.now + 60 } }, true)
      p Mongo::Locking.break("Order", 7), order.lock(max_retries: 5) { :broken }
    RUBY
    expect(said).to eq [
      '["Order", "7", 1]',
      "true",
      '[["Order", "7", true]]',
      "unable to acquire lock Order/7",
      "[]",
      "findAndModify findAndModify",
      ":mine",
      "[0, 1]",
      ":taken_over",
      "[]",
      "true",
      ":broken"
    ]
  end
end
