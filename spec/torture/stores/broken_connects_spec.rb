# frozen_string_literal: true

require "spec_helper"
require "support/databases"

# An example fails when mysql2 closes these sockets: then the judge need not excuse them any more.
RSpec.describe "A connect of mysql2 that an interrupt ends", :databases,
               needs: Support::Databases::PROGRAMS[:mysql2] do
  let!(:server) { Support::Mariadb.shared }
  let(:line) { proxy(["127.0.0.1", server.port]) }

  # The thread is killed once the server has let it in, and before it learns of that.
  def break_off(line)
    line.forget
    line.hold(:reply)
    thread = Thread.new { Mysql2::Client.new(server.tcp_config("mysql2", port: line.port)) }
    line.await(:request)
    thread.kill
    line.clear
    thread.join
  end

  # In a process of its own, because the sockets stay.
  def sockets_after
    in_child do
      require_relative "broken_connects"
      Torture::Stores::BrokenConnects.watch
      before = Support::Inventory.connections
      yield
      4.times { GC.start }
      left = Support::Inventory.connections - before
      [left.size, left - Torture::Stores::BrokenConnects.sockets]
    end
  end

  it "leaves its socket open, which is noted" do
    left, not_noted = sockets_after { 3.times { break_off(line) } }
    # mysql2 closes the socket if the interrupt comes a moment later
    expect(left).to be_between(1, 3)
    expect(not_noted).to be_empty
  end

  it "is the only one whose socket is noted" do
    kept = []
    expect(
      sockets_after do
        kept << Mysql2::Client.new(server.tcp_config("mysql2"))
        line.refuse
        begin
          Mysql2::Client.new(server.tcp_config("mysql2", port: line.port))
        rescue Mysql2::Error
          nil
        end
      end
    ).to match([1, [start_with("socket:")]])
  end
end
